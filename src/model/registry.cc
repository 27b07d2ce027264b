#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gguf/text.h"
#include "model/gemma3.h"
#include "model/llama.h"
#include "model/model.h"
#include "model/qwen2.h"
#include "model/qwen3.h"

namespace ondol::model {
namespace {

constexpr Architecture kArchitectures[] = {
    {"llama", load_llama},
    {"qwen2", load_qwen2},
    {"qwen3", load_qwen3},
    {"gemma3", load_gemma3},
};

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

Result<std::unique_ptr<const Model>> Model::load(const gguf::File& file) {
  const auto arch = architecture(file);
  if (!arch) return propagate(arch);
  std::vector<std::string_view> names;
  for (const Architecture& known : kArchitectures) {
    if (known.name == *arch) return known.load(file);
    names.push_back(known.name);
  }
  return refused(fmt::format("the architecture '{}' is not supported; supported are {}",
                             gguf::printable(*arch), fmt::join(names, ", ")));
}

}  // namespace ondol::model
