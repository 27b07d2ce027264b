#include "bench/speed.h"

#include <gtest/gtest.h>

#include "base/env_forward.h"
#include "support/support.h"

namespace ondol::bench {
namespace {

/// A clock that moves by 10 ms whenever it is read.
class TickingEnv final : public EnvForward {
 public:
  TickingEnv() : EnvForward(Env::real()) {}
  std::chrono::steady_clock::time_point now() override {
    return std::chrono::steady_clock::time_point(std::chrono::milliseconds(10) * ++reads_);
  }

 private:
  int reads_ = 0;
};

std::unique_ptr<engine::Engine> open(int n_ctx = 64, int sequences = 1) {
  auto engine = engine::Engine::open(Env::real(), test::data_path("models/llama.gguf"),
                                     {.n_ctx = n_ctx, .threads = 1, .n_sequences = sequences});
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
  EXPECT_GT(report->clock_ghz, 0);
  const double cycles = report->clock_ghz * 1e9 / median(report->pp);
  EXPECT_DOUBLE_EQ(report->prefill_mac_per_cycle_per_core,
                   report->prefill_multiply_adds_per_token / cycles);
}

TEST(Speed, BatchesCountTheTokensOfAllSequences) {
  const auto engine = open(64, 8);
  const SpeedOptions options{
      .n_prompt = 0, .n_generate = 4, .depth = 20, .repetitions = 1, .batches = {1, 8}};
  // Every measurement reads the clock twice: whatever they compute takes one tick of 10 ms.
  TickingEnv env;
  const auto report = measure_speed(env, *engine, options, [](int) {}, [] { return false; });
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->pp.empty());
  EXPECT_EQ(report->prefill_mac_per_cycle_per_core, 0);
  ASSERT_EQ(report->batches.size(), 2u);
  EXPECT_DOUBLE_EQ(report->tg.at(0), 4 / 0.010);
  EXPECT_DOUBLE_EQ(report->batches[0].tps.at(0), 4 / 0.010);
  EXPECT_DOUBLE_EQ(report->batches[0].v, 1);
  EXPECT_DOUBLE_EQ(report->batches[1].tps.at(0), 8 * 4 / 0.010);
  EXPECT_DOUBLE_EQ(report->batches[1].v, 1);
}

TEST(Speed, RefusesBatchesThatCannotBe) {
  const auto engine = open(64, 2);
  const auto run = [&](SpeedOptions options) {
    return measure_speed(Env::real(), *engine, options, [](int) {}, [] { return false; });
  };
  const auto nothing = run({.n_prompt = 4, .n_generate = 0, .batches = {2}});
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().kind, ErrorKind::kUsage);
  const auto too_many = run({.n_prompt = 0, .n_generate = 40, .repetitions = 1, .batches = {64}});
  ASSERT_FALSE(too_many);
  EXPECT_EQ(too_many.error().kind, ErrorKind::kNoMemory);
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
