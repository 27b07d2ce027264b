// Thread rule: a pure function: no clock, thread, tensor or socket in it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ondol::scheduler {

/// A request as the scheduler sees it, in order of arrival.
struct RequestState {
  int n_pending =
      0;  ///< tokens known but not yet computed: 1 while decoding, more while reading the prompt
};

struct Limits {
  int max_rows = 512;   ///< rows of one step
  int max_chunk = 512;  ///< rows of one request in a step
};

/// The rows that one request contributes to a step.
struct Slice {
  size_t request = 0;  ///< index into the requests given
  int n_rows = 0;
};

/// Shares the rows of one step: first one row to every request that is decoding, so that a long
/// prompt does not stall anybody's next token, then prompts in order of arrival until the step is
/// full. Slices come in the order of requests.
std::vector<Slice> plan_step(std::span<const RequestState> requests, const Limits& limits);

}  // namespace ondol::scheduler
