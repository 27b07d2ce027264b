#include "bench/roofline.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/env_forward.h"
#include "support/support.h"

namespace ondol::bench {
namespace {

/// A clock that moves by a fixed time whenever it is read.
class TickingEnv final : public EnvForward {
 public:
  explicit TickingEnv(std::chrono::nanoseconds tick) : EnvForward(Env::real()), tick_(tick) {}
  std::chrono::steady_clock::time_point now() override {
    return std::chrono::steady_clock::time_point(tick_ * ++reads_);
  }

 private:
  std::chrono::nanoseconds tick_;
  std::atomic<int> reads_ = 0;
};

TEST(Roofline, BandwidthIsBytesByTime) {
  TickingEnv env(std::chrono::milliseconds(32));
  for (const int threads : {1, 2}) {
    EXPECT_DOUBLE_EQ(measure_read_bandwidth(env, threads), (256 << 20) / 0.032 / 1e9);
  }
}

TEST(Roofline, ClockIsAdditionsByTime) {
  TickingEnv env(std::chrono::milliseconds(8));
  for (const int threads : {1, 2}) {
    EXPECT_DOUBLE_EQ(measure_clock(env, threads), kClockAdds / 0.008 / 1e9);
  }
}

TEST(Roofline, AStoppedClockGivesNoFigure) {
  TickingEnv env(std::chrono::nanoseconds(0));
  EXPECT_EQ(measure_read_bandwidth(env, 1), 0);
  EXPECT_EQ(measure_clock(env, 1), 0);
}

class StatusEnv final : public EnvForward {
 public:
  explicit StatusEnv(Result<std::string> status)
      : EnvForward(Env::real()), status_(std::move(status)) {}
  Result<std::string> read_text(const std::string&, uint64_t) override { return status_; }

 private:
  Result<std::string> status_;
};

TEST(Roofline, PeakMemoryIsWhatTheSystemSays) {
  StatusEnv env(
      std::string("Name:\tondol\nVmPeak:\t 9000 kB\nVmHWM:\t   1234 kB\nVmRSS:\t 5 kB\n"));
  EXPECT_EQ(peak_memory(env), 1234u * 1024);
  StatusEnv silent(std::string("Name:\tondol\n"));
  EXPECT_EQ(peak_memory(silent), 0u);
  StatusEnv absent(failed("no such file"));
  EXPECT_EQ(peak_memory(absent), 0u);
}

TEST(Roofline, MultiplyAddsOfTheToyModelAreItsMatrices) {
  const auto file = gguf::File::open(Env::real(), test::data_path("models/llama.gguf"));
  ASSERT_TRUE(file) << file.error().message;
  // Counted from the hyperparameters, not from the tensors.
  const auto value = [&](const char* key) {
    return static_cast<double>(file->get_uint(key).value_or(0));
  };
  const double embd = value("llama.embedding_length");
  const double head_dim = embd / value("llama.attention.head_count");
  const double kv = head_dim * value("llama.attention.head_count_kv");
  const double layer =
      2 * embd * embd + 2 * embd * kv + 3 * embd * value("llama.feed_forward_length");
  const auto counted = multiply_adds(*file);
  EXPECT_EQ(counted.layers, layer * value("llama.block_count"));
  const auto* table = file->tensor("token_embd.weight");
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(counted.head, embd * static_cast<double>(table->dims[1]));
}

}  // namespace
}  // namespace ondol::bench
