// Qwen 3, dense (arXiv 2505.09388): a norm over each query and key head, no biases.
#include "model/qwen3.h"

#include "model/decoder.h"

namespace ondol::model {

Result<std::unique_ptr<const Model>> load_qwen3(const gguf::File& file) {
  auto config = Config::read(file, kernels::RopeStyle::kHalves);
  if (!config) return propagate(std::move(config));
  auto model = std::make_unique<Decoder>(file, *std::move(config));
  if (const auto loaded = model->load(); !loaded) return propagate(loaded);
  const auto has_norms = [](const Attention& a) {
    return a.q_norm != nullptr && a.k_norm != nullptr;
  };
  if (const auto complete = require(*model, has_norms, "attn_{q,k}_norm.weight"); !complete)
    return propagate(complete);
  return model;
}

}  // namespace ondol::model
