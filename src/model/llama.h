// Thread rule: as Model::load.
#pragma once

#include "model/model.h"

namespace ondol::model {

/// The family "llama": Llama 2 and 3, SmolLM2, Mistral (arXiv 2307.09288, 2407.21783). kRefused as
/// Model::load, and for a mixture of experts.
Result<std::unique_ptr<const Model>> load_llama(const gguf::File& file);

}  // namespace ondol::model
