#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <random>

#include "scheduler/fair_share.h"

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

TEST(Scheduler, TurnsFollowPriorityThenFairnessThenDeadlineThenArrival) {
  const RequestState requests[] = {{.n_pending = 9, .served = 5},
                                   {.n_pending = 9, .served = 2, .deadline = 8},
                                   {.n_pending = 9, .served = 2, .deadline = 3},
                                   {.n_pending = 9, .served = 2},
                                   {.n_pending = 9, .priority = 1, .served = 100},
                                   {.n_pending = 9, .served = 5}};
  EXPECT_EQ(turn_order(requests), (std::vector<size_t>{4, 2, 1, 3, 0, 5}));
  const auto plan = plan_step(requests, {.max_rows = 20, .max_chunk = 9});
  ASSERT_EQ(plan.size(), 3u);
  EXPECT_EQ(plan[0].request, 1u);
  EXPECT_EQ(plan[1].request, 2u);
  EXPECT_EQ(plan[2].request, 4u);
  EXPECT_EQ(plan[0].n_rows, 2) << "what is left for the third";
}

TEST(Scheduler, TheLastOfTheLowestPriorityGivesWay) {
  const RequestState requests[] = {
      {.priority = 1}, {.priority = 0}, {.priority = 0}, {.priority = 2}};
  EXPECT_EQ(gives_way(requests), 2u);
  EXPECT_EQ(gives_way(std::span(requests).first(1)), 0u);
}

TEST(FairShare, WhoHadLeastGoesFirstAndIdlenessSavesNothing) {
  FairShare share;
  share.enter("a");
  share.enter("b");
  share.charge("a", 100, 10);
  share.charge("b", 20, 0);
  EXPECT_EQ(share.served("a"), 120);
  EXPECT_EQ(share.served("b"), 20);
  share.enter("c");
  EXPECT_EQ(share.served("c"), 20) << "starts beside the least served";
  share.leave("a");
  share.enter("a");
  EXPECT_EQ(share.served("a"), 120) << "leaving for a moment gains nothing";
  share.leave("b");
  share.charge("c", 50, 0);
  share.charge("a", 50, 0);
  share.enter("b");
  EXPECT_EQ(share.served("b"), 70);
  for (const char* name : {"a", "b", "c"}) share.leave(name);
  EXPECT_EQ(share.served("a"), 0) << "alone there is nobody to be fair to";
}

TEST(FairShare, TwoTenantsGetTheSameWhateverTheyAskFor) {
  FairShare share;
  share.enter("many");
  share.enter("few");
  std::mt19937 random(5);
  for (int i = 0; i < 1000; ++i) {
    const RequestState states[] = {{.served = share.served("many")},
                                   {.served = share.served("few")}};
    const bool few = turn_order(states)[0] == 1;
    share.charge(few ? "few" : "many", few ? 7 : 100, static_cast<int>(random() % 10));
  }
  EXPECT_NEAR(share.served("many"), share.served("few"), 120) << "one request apart";
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
