// Thread rule: as Engine.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "engine/engine.h"

namespace ondol::engine {

/// One whole answer.
struct Generation {
  std::string text;
  std::vector<int32_t> tokens;  ///< without the end token
  int n_prompt = 0;
  int n_cached = 0;           ///< of these, tokens that the cache had
  std::string finish_reason;  ///< "stop" (end token or stop text) or "length"
  double prefill_ms = 0;      ///< until the first token was chosen
  double decode_ms = 0;       ///< from there to the last
  int n_steps = 0;            ///< tokens chosen, the end token among them
  /// Tokens computed per second; 0 where nothing was timed (decode: of a single token).
  double prefill_tps() const {
    return prefill_ms > 0 ? (n_prompt - n_cached) / prefill_ms * 1e3 : 0;
  }
  double decode_tps() const;
};

struct GenerateOptions {
  std::vector<std::string> stops;
  /// Control tokens are part of the text.
  bool special = false;
  /// Takes the text as it comes; its error ends the answer.
  std::function<Result<void>(std::string_view)> on_text;
  /// Asked after each step; true ends the answer with kInterrupted.
  std::function<bool()> interrupted;
};

/// Runs one request to its end. The engine must be idle.
Result<Generation> generate(Env& env, Engine& engine, Request request,
                            const GenerateOptions& options);

}  // namespace ondol::engine
