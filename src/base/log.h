// Thread rule: any thread.
#pragma once

#include <spdlog/spdlog.h>

namespace ondol {

/// Sends the log to stderr (stdout carries results only) and sets how much is said. Level names are
/// spdlog's: trace, debug, info, warn, error, off. Prompts and keys are never logged.
void init_log(spdlog::level::level_enum level);

}  // namespace ondol
