// Thread rule: as Model::load.
#pragma once

#include "model/model.h"

namespace ondol::model {

/// The family "qwen3", dense (arXiv 2505.09388). kRefused as Model::load.
Result<std::unique_ptr<const Model>> load_qwen3(const gguf::File& file);

}  // namespace ondol::model
