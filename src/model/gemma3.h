// Thread rule: as Model::load.
#pragma once

#include "model/model.h"

namespace ondol::model {

Result<std::unique_ptr<const Model>> load_gemma3(const gguf::File& file);

}  // namespace ondol::model
