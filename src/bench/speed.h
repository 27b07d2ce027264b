// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "engine/engine.h"

namespace ondol::bench {

struct SpeedOptions {
  int n_prompt = 512;    ///< tokens of the prefill measured; 0: none
  int n_generate = 128;  ///< tokens of the decode measured; 0: none
  int depth = 0;         ///< tokens already in the cache
  int repetitions = 3;
};

/// Tokens per second, one value a repetition, in ascending order.
struct SpeedReport {
  std::vector<double> pp;
  std::vector<double> tg;
  uint64_t weight_bytes_per_token = 0;
  double read_bandwidth_gbps = 0;  ///< 10^9 bytes/s, measured on the spot with the engine's threads
  double share_of_bandwidth = 0;   ///< median tg * weight_bytes_per_token / bandwidth
};

/// The middle value, or the mean of the two in the middle; 0 of nothing.
double median(std::vector<double> values);

/// Measures prefill and greedy decode with random token ids; every repetition starts from an empty
/// cache. `progress` is called with the repetition about to run. Usage error where there is nothing
/// to measure or the tokens do not fit in the context; kInterrupted when `stop` returns true.
Result<SpeedReport> measure_speed(Env& env, engine::Engine& engine, const SpeedOptions& options,
                                  const std::function<void(int)>& progress,
                                  const std::function<bool()>& stop);

/// Read-only bandwidth of memory in 10^9 bytes/s: the best of a few passes of `threads` threads
/// over 256 MiB, more than the caches of most machines.
double measure_read_bandwidth(Env& env, int threads);

}  // namespace ondol::bench
