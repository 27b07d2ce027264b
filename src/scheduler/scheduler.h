// Thread rule: a pure function: no clock, thread, tensor or socket in it.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace ondol::scheduler {

/// A request as the scheduler sees it, in order of arrival.
struct RequestState {
  int n_pending =
      0;  ///< tokens known but not yet computed: 1 while decoding, more while reading the prompt
  int priority = 0;   ///< higher goes first
  double served = 0;  ///< what its tenant had so far (FairShare): who had least goes first
  /// When its first token is due, on any clock; between requests that are otherwise equal.
  double deadline = std::numeric_limits<double>::infinity();
};

/// Whose turn it is: indices by priority, least served tenant, deadline and arrival. A deadline
/// comes after fairness, so that nobody gains on others by being in a hurry.
std::vector<size_t> turn_order(std::span<const RequestState> requests);
/// Who gives way when memory is short: the lowest priority, among equals the one that came last.
/// `requests` is not empty.
size_t gives_way(std::span<const RequestState> requests);

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
/// prompt does not stall anybody's next token, then prompts in turn_order until the step is
/// full. Slices come in the order of requests.
std::vector<Slice> plan_step(std::span<const RequestState> requests, const Limits& limits);

}  // namespace ondol::scheduler
