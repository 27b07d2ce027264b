// Thread rule: test code; as Engine.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace ondol::engine::test {

inline std::unique_ptr<Engine> open_engine(const std::string& path, const EngineOptions& options) {
  auto engine = Engine::open(Env::real(), path, options);
  EXPECT_TRUE(engine) << engine.error().message;
  return std::move(*engine);
}

/// The most probable tokens, whatever they are.
inline Request greedy(std::vector<int32_t> prompt, int max_tokens) {
  return {.prompt = std::move(prompt),
          .sampling = {.temperature = 0},
          .max_tokens = max_tokens,
          .ignore_end = true};
}

}  // namespace ondol::engine::test
