// Thread rule: as Model::load.
#pragma once

#include "model/model.h"

namespace ondol::model {

/// The family "gemma3", text only (arXiv 2503.19786). kRefused as Model::load.
Result<std::unique_ptr<const Model>> load_gemma3(const gguf::File& file);

}  // namespace ondol::model
