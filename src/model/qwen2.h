// Thread rule: as Model::load.
#pragma once

#include "model/model.h"

namespace ondol::model {

/// The family "qwen2": Qwen2 and 2.5 (arXiv 2407.10671). kRefused as Model::load.
Result<std::unique_ptr<const Model>> load_qwen2(const gguf::File& file);

}  // namespace ondol::model
