#include "scheduler/scheduler.h"

#include <algorithm>

namespace ondol::scheduler {

std::vector<Slice> plan_step(std::span<const RequestState> requests, const Limits& limits) {
  std::vector<int> rows(requests.size(), 0);
  int left = limits.max_rows;
  const auto give = [&](size_t i, int wanted) {
    rows[i] = std::min(wanted, left);
    left -= rows[i];
  };
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].n_pending == 1) give(i, 1);
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].n_pending > 1) give(i, std::min(requests[i].n_pending, limits.max_chunk));
  }
  std::vector<Slice> plan;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (rows[i] > 0) plan.push_back({i, rows[i]});
  }
  return plan;
}

}  // namespace ondol::scheduler
