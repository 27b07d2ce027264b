#include "scheduler/scheduler.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace ondol::scheduler {

std::vector<size_t> turn_order(std::span<const RequestState> requests) {
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) {
    const RequestState& r = requests[i];
    return std::tuple(-r.priority, r.served, r.deadline, i);  // i: in order of arrival
  });
  return order;
}

size_t gives_way(std::span<const RequestState> requests) {
  size_t chosen = 0;
  for (size_t i = 1; i < requests.size(); ++i) {
    if (requests[i].priority <= requests[chosen].priority) chosen = i;
  }
  return chosen;
}

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
  for (const size_t i : turn_order(requests)) {
    if (requests[i].n_pending > 1) give(i, std::min(requests[i].n_pending, limits.max_chunk));
  }
  std::vector<Slice> plan;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (rows[i] > 0) plan.push_back({i, rows[i]});
  }
  return plan;
}

}  // namespace ondol::scheduler
