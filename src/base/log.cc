#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <cstdlib>

namespace ondol {

void init_log(spdlog::level::level_enum level) {
  const bool colour = isatty(STDERR_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  const auto mode = colour ? spdlog::color_mode::automatic : spdlog::color_mode::never;
  auto logger = std::make_shared<spdlog::logger>(
      "ondol", std::make_shared<spdlog::sinks::stderr_color_sink_mt>(mode));
  logger->set_level(level);
  logger->set_pattern("%^%l%$: %v");
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace ondol
