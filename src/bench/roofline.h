// Thread rule: one thread; the measurements start a team of their own.
//
// What the machine allows: read bandwidth, clock, and how many multiply-adds a model asks for.
#pragma once

#include <cstdint>

#include "base/env.h"
#include "gguf/gguf.h"

namespace ondol::bench {

/// Read-only bandwidth of memory in 10^9 bytes/s: the best of a few passes of `threads` threads
/// over 256 MiB, more than the caches of most machines. Each thread wrote its own part first, so
/// that it lies in the memory nearest to it.
double measure_read_bandwidth(Env& env, int threads);

/// Additions that one thread does in a pass of measure_clock().
inline constexpr int kClockAdds = 1 << 22;

/// Clock of the cores in 10^9 cycles/s while `threads` of them work: each thread does kClockAdds
/// integer additions, each of which needs the result of the one before. Such an addition of two
/// registers takes one cycle on every core since the 1990s, so the additions count cycles. The best
/// of a few passes; cores that lower their clock for wide vector code run slower than this.
double measure_clock(Env& env, int threads);

/// The most memory that this process has held so far, in bytes: what /proc/self/status calls VmHWM.
/// 0 where the system does not say.
uint64_t peak_memory(Env& env);

/// Multiply-adds of the products with weight matrices. Attention over the cache is not counted.
struct MultiplyAdds {
  double layers = 0;  ///< for each token; of experts only those used
  double head = 0;    ///< for each row of logits
};
MultiplyAdds multiply_adds(const gguf::File& file);

}  // namespace ondol::bench
