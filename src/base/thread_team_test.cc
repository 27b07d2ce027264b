#include "base/thread_team.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

namespace ondol {
namespace {

TEST(ThreadTeam, EveryThreadRunsOnceInEachRound) {
  for (const int n : {1, 2, 3, 8}) {
    ThreadTeam team(n);
    std::vector<int> rounds(static_cast<size_t>(n), 0);  // plain ints: the team orders the accesses
    for (int round = 0; round < 200; ++round) {
      team.run([&](int thread, int n_threads) {
        EXPECT_EQ(n_threads, n);
        ++rounds[static_cast<size_t>(thread)];
      });
    }
    EXPECT_EQ(rounds, std::vector<int>(static_cast<size_t>(n), 200));
  }
}

TEST(ThreadTeam, ParallelForVisitsEachItemOnce) {
  ThreadTeam team(4);
  for (const int64_t count : {0, 1, 2, 3, 7, 1000}) {
    std::vector<int> visits(static_cast<size_t>(count), 0);
    team.parallel_for(count, [&](int64_t i, int thread) {
      EXPECT_LT(thread, 4);
      ++visits[static_cast<size_t>(i)];
    });
    EXPECT_EQ(std::accumulate(visits.begin(), visits.end(), int64_t{0}), count);
  }
}

TEST(ThreadTeam, OneThreadRunsInline) {
  ThreadTeam team(1);
  const auto caller = std::this_thread::get_id();
  team.run([&](int, int) { EXPECT_EQ(std::this_thread::get_id(), caller); });
  team.parallel_for(3, [&](int64_t, int) { EXPECT_EQ(std::this_thread::get_id(), caller); });
}

TEST(ThreadTeam, SleepersWakeAndWritesAreSeen) {
  ThreadTeam team(3);
  int64_t value = 0;
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(
        std::chrono::milliseconds(5));  // long enough for the workers to fall asleep
    ++value;
    std::vector<int64_t> seen(3, -1);
    team.run([&](int thread, int) { seen[static_cast<size_t>(thread)] = value; });
    EXPECT_EQ(seen, std::vector<int64_t>(3, value));
  }
}

TEST(ThreadTeam, EndsWhileItsThreadsSleepOrSpin) {
  for (int i = 0; i < 20; ++i) {
    ThreadTeam team(4);
    if (i % 2 == 0) team.run([](int, int) {});
  }
}

}  // namespace
}  // namespace ondol
