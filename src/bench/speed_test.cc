#include "bench/speed.h"

#include <gtest/gtest.h>

#include "support/support.h"

namespace ondol::bench {
namespace {

std::unique_ptr<engine::Engine> open(int n_ctx = 64) {
  auto engine = engine::Engine::open(Env::real(), test::data_path("models/llama.gguf"),
                                     {.n_ctx = n_ctx, .threads = 1});
  EXPECT_TRUE(engine) << engine.error().message;
  return std::move(*engine);
}

TEST(Speed, MedianOfFewAndMany) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({5, 1}), 3);
  EXPECT_EQ(median({9, 1, 2}), 2);
}

TEST(Speed, GivesOneFigureARepetition) {
  const auto engine = open();
  int calls = 0;
  const auto report = measure_speed(
      Env::real(), *engine, {.n_prompt = 20, .n_generate = 8, .depth = 16, .repetitions = 3},
      [&](int) { ++calls; }, [] { return false; });
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(report->pp.size(), 3u);
  EXPECT_EQ(report->tg.size(), 3u);
  for (const double tps : report->tg) EXPECT_GT(tps, 0);
  EXPECT_GT(report->read_bandwidth_gbps, 0);
}

TEST(Speed, RefusesWhatDoesNotFitAndStopsWhenAsked) {
  const auto engine = open();
  const auto too_long = measure_speed(
      Env::real(), *engine, {.n_prompt = 60, .depth = 10}, [](int) {}, [] { return false; });
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().kind, ErrorKind::kUsage);
  const auto nothing = measure_speed(
      Env::real(), *engine, {.n_prompt = 0, .n_generate = 0}, [](int) {}, [] { return false; });
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().kind, ErrorKind::kUsage);
  const auto stopped = measure_speed(
      Env::real(), *engine, {.n_prompt = 8, .n_generate = 8}, [](int) {}, [] { return true; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().kind, ErrorKind::kInterrupted);
}

TEST(Speed, AContextOfOneTokenIsEnoughForOne) {
  const auto engine = open(1);
  const auto report = measure_speed(
      Env::real(), *engine, {.n_prompt = 1, .n_generate = 1, .repetitions = 1}, [](int) {},
      [] { return false; });
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->pp.size() + report->tg.size(), 2u);
}

}  // namespace
}  // namespace ondol::bench
