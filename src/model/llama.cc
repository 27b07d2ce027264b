// Llama 2 and 3.x, SmolLM2, Mistral 7B and others that name themselves "llama" (arXiv 2307.09288,
// 2407.21783).
#include "model/llama.h"

#include "model/decoder.h"

namespace ondol::model {

Result<std::unique_ptr<const Model>> load_llama(const gguf::File& file) {
  // Pairs (2i, 2i+1) are rotated: GGUF files of this family have their query and key rows in that
  // order.
  auto config = Config::read(file, kernels::RopeStyle::kInterleaved);
  if (!config) return propagate(std::move(config));
  const auto experts = file.get_uint("llama.expert_count", 0);
  if (!experts) return propagate(experts);
  if (*experts > 0) {
    return refused(
        "this is a llama model with experts (llama.expert_count), which is not supported yet");
  }
  auto model = std::make_unique<Decoder>(file, *std::move(config));
  if (const auto loaded = model->load(); !loaded) return propagate(loaded);
  return model;
}

}  // namespace ondol::model
