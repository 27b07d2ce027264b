// Qwen 2 and 2.5 (arXiv 2407.10671, 2412.15115): biases on queries, keys and values.
#include "model/qwen2.h"

#include "model/decoder.h"

namespace ondol::model {

Result<std::unique_ptr<const Model>> load_qwen2(const gguf::File& file) {
  auto config = Config::read(file, kernels::RopeStyle::kHalves);
  if (!config) return propagate(std::move(config));
  auto model = std::make_unique<Decoder>(file, *std::move(config));
  if (const auto loaded = model->load(); !loaded) return propagate(loaded);
  const auto has_biases = [](const Attention& a) {
    return a.q_bias != nullptr && a.k_bias != nullptr && a.v_bias != nullptr;
  };
  if (const auto complete = require(*model, has_biases, "attn_{q,k,v}.bias"); !complete)
    return propagate(complete);
  return model;
}

}  // namespace ondol::model
