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
  int n_generate = 128;  ///< tokens of the decode measured, of each sequence; 0: none
  int depth = 0;         ///< tokens already in the cache, of each sequence
  int repetitions = 3;
  /// Decode is measured once more for each of these, with so many sequences at once. The engine
  /// must have been opened for them.
  std::vector<int> batches;
};

/// Decode of several sequences at once.
struct BatchSpeed {
  int sequences = 1;
  std::vector<double> tps;  ///< tokens/s of all sequences together, ascending
  double v = 0;             ///< time of a step ÷ time of a step of one sequence, of the medians
};

/// Tokens per second, one value a repetition, in ascending order.
struct SpeedReport {
  std::vector<double> pp;
  std::vector<double> tg;
  std::vector<BatchSpeed> batches;
  uint64_t weight_bytes_per_token = 0;
  double read_bandwidth_gbps = 0;  ///< 10^9 bytes/s, measured on the spot with the engine's threads
  double share_of_bandwidth = 0;   ///< median tg * weight_bytes_per_token / bandwidth
  uint64_t peak_rss_bytes = 0;     ///< of the process, before what measures bandwidth takes memory
  double clock_ghz = 0;            ///< measured on the spot with the engine's threads
  double prefill_multiply_adds_per_token = 0;  ///< with weights; attention is not counted
  double prefill_mac_per_cycle_per_core = 0;   ///< of the median pp
};

/// The middle value, or the mean of the two in the middle; 0 of nothing.
double median(std::vector<double> values);

/// Measures prefill and greedy decode with random token ids; every repetition starts from an empty
/// cache. `progress` is called with the repetition about to run. Usage error where there is
/// nothing to measure, the tokens do not fit in the context, or batches are asked for without
/// tokens to generate; kNoMemory where the engine has no room for that many sequences; kInterrupted
/// when `stop` returns true.
Result<SpeedReport> measure_speed(Env& env, engine::Engine& engine, const SpeedOptions& options,
                                  const std::function<void(int)>& progress,
                                  const std::function<bool()>& stop);

}  // namespace ondol::bench
