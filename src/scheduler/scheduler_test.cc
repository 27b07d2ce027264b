#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <random>

namespace ondol::scheduler {
namespace {

TEST(Scheduler, DecodingGoesFirstAndPromptsFillTheRest) {
  const RequestState requests[] = {{1000}, {1}, {40}, {1}};
  const auto plan = plan_step(requests, {.max_rows = 64, .max_chunk = 32});
  ASSERT_EQ(plan.size(), 4u);
  EXPECT_EQ(plan[0].n_rows, 32);  // its chunk
  EXPECT_EQ(plan[1].n_rows, 1);
  EXPECT_EQ(plan[2].n_rows, 30);  // what is left
  EXPECT_EQ(plan[3].n_rows, 1);
}

TEST(Scheduler, NothingPendingNothingPlanned) {
  EXPECT_TRUE(plan_step({}, {}).empty());
  const RequestState idle[] = {{0}};
  EXPECT_TRUE(plan_step(idle, {}).empty());
}

TEST(Scheduler, NeverMoreRowsThanAllowedAndAlwaysSomeWork) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::vector<RequestState> requests(random() % 20);
    int pending = 0;
    for (auto& request : requests) pending += request.n_pending = static_cast<int>(random() % 50);
    const Limits limits{.max_rows = 1 + static_cast<int>(random() % 40),
                        .max_chunk = 1 + static_cast<int>(random() % 40)};
    int rows = 0;
    for (const Slice& slice : plan_step(requests, limits)) {
      EXPECT_LE(slice.n_rows, std::min(limits.max_chunk, requests[slice.request].n_pending));
      rows += slice.n_rows;
    }
    EXPECT_LE(rows, limits.max_rows);
    EXPECT_EQ(rows > 0, pending > 0);
  }
}

}  // namespace
}  // namespace ondol::scheduler
