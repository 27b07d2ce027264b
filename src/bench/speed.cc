#include "bench/speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <thread>

namespace ondol::bench {
namespace {

using Seconds = std::chrono::duration<double>;

std::vector<int32_t> random_tokens(int n_vocab, int count) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int32_t> id(0, n_vocab - 1);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) token = id(random);
  return tokens;
}

/// One sequence fed token by token or in chunks.
class Feeder {
 public:
  Feeder(engine::Runner& runner, int chunk, const std::function<bool()>& stop)
      : runner_(runner), pages_(runner.new_sequence()), chunk_(chunk), stop_(stop) {}

  /// Computes `tokens`; the id of the most probable next one.
  Result<int32_t> feed(std::span<const int32_t> tokens) {
    kernels::Rows logits;
    for (size_t first = 0; first < tokens.size(); first += static_cast<size_t>(chunk_)) {
      if (stop_()) return fail(ErrorKind::kInterrupted, "interrupted");
      const auto part =
          tokens.subspan(first, std::min(static_cast<size_t>(chunk_), tokens.size() - first));
      const bool last = first + part.size() == tokens.size();
      const engine::Piece piece{
          .pages = &pages_, .tokens = part, .first_pos = position_, .n_logits = last ? 1 : 0};
      const auto rows = runner_.run({&piece, 1});
      if (!rows) return propagate(rows);
      logits = *rows;
      position_ += static_cast<int>(part.size());
    }
    const float* best = std::max_element(logits.row(0), logits.row(0) + logits.width);
    return static_cast<int32_t>(best - logits.row(0));
  }

 private:
  engine::Runner& runner_;
  kv::SequencePages pages_;
  int chunk_;
  const std::function<bool()>& stop_;
  int position_ = 0;
};

constexpr int kChunk = 512;

Result<void> one_repetition(Env& env, engine::Engine& engine, const SpeedOptions& options,
                            const std::function<bool()>& stop, SpeedReport& report) {
  const int n_vocab = engine.model().config().n_vocab;
  const auto tokens = random_tokens(n_vocab, options.depth + std::max(1, options.n_prompt));
  const auto all = std::span<const int32_t>(tokens);
  const auto depth = all.first(static_cast<size_t>(options.depth));
  if (options.n_prompt > 0) {
    Feeder feeder(engine.runner(), kChunk, stop);
    if (!depth.empty()) {
      if (const auto fed = feeder.feed(depth); !fed) return propagate(fed);
    }
    const auto start = env.now();
    if (const auto fed = feeder.feed(all.subspan(depth.size())); !fed) return propagate(fed);
    report.pp.push_back(options.n_prompt / Seconds(env.now() - start).count());
  }
  if (options.n_generate > 0) {
    Feeder feeder(engine.runner(), kChunk, stop);
    if (!depth.empty()) {
      if (const auto fed = feeder.feed(depth); !fed) return propagate(fed);
    }
    int32_t token = tokens.back();
    const auto start = env.now();
    for (int i = 0; i < options.n_generate; ++i) {
      const auto next = feeder.feed({&token, 1});
      if (!next) return propagate(next);
      token = *next;
    }
    report.tg.push_back(options.n_generate / Seconds(env.now() - start).count());
  }
  return {};
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double measure_read_bandwidth(Env& env, int threads) {
  constexpr size_t kBytes = size_t{256} << 20;
  constexpr int kPasses = 5;
  const std::vector<uint64_t> buffer(kBytes / sizeof(uint64_t), 1);
  std::vector<uint64_t> sums(static_cast<size_t>(threads));
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = env.now();
    {
      std::vector<std::jthread> team;
      for (int t = 0; t < threads; ++t) {
        team.emplace_back([&, t] {
          const size_t part = buffer.size() / static_cast<size_t>(threads);
          const auto* first = buffer.data() + part * static_cast<size_t>(t);
          // Four sums, so that the loop waits for memory and not for its own additions.
          uint64_t sum[4] = {};
          for (size_t i = 0; i + 4 <= part; i += 4) {
            for (size_t j = 0; j < 4; ++j) sum[j] += first[i + j];
          }
          sums[static_cast<size_t>(t)] = sum[0] + sum[1] + sum[2] + sum[3];
        });
      }
    }
    const double seconds = Seconds(env.now() - start).count();
    // The sums are looked at, so that the reads cannot be left out.
    if (std::accumulate(sums.begin(), sums.end(), uint64_t{0}) == 0) return 0;
    best = std::max(best, static_cast<double>(kBytes) / seconds / 1e9);
  }
  return best;
}

Result<SpeedReport> measure_speed(Env& env, engine::Engine& engine, const SpeedOptions& options,
                                  const std::function<void(int)>& progress,
                                  const std::function<bool()>& stop) {
  if (options.n_prompt == 0 && options.n_generate == 0)
    return usage_error("there is nothing to measure; give -p or -n a number above zero");
  const int longest = options.depth + std::max(options.n_prompt, options.n_generate);
  if (longest > engine.n_ctx()) {
    return usage_error(fmt::format(
        "depth and tokens are {} together, but the context holds {}; choose fewer or a larger "
        "one with --ctx",
        longest, engine.n_ctx()));
  }
  SpeedReport report;
  report.weight_bytes_per_token = engine.model().weight_bytes_per_token();
  // Once before the clock runs: the weights are paged in, the threads are awake.
  const std::vector<int32_t> warm(static_cast<size_t>(std::min(8, engine.n_ctx())));
  if (const auto warmed = Feeder(engine.runner(), kChunk, stop).feed(warm); !warmed)
    return propagate(warmed);
  for (int i = 0; i < options.repetitions; ++i) {
    progress(i);
    if (const auto done = one_repetition(env, engine, options, stop, report); !done)
      return propagate(done);
  }
  std::ranges::sort(report.pp);
  std::ranges::sort(report.tg);
  report.read_bandwidth_gbps = measure_read_bandwidth(env, engine.threads());
  if (report.read_bandwidth_gbps > 0) {
    report.share_of_bandwidth = median(report.tg) *
                                static_cast<double>(report.weight_bytes_per_token) / 1e9 /
                                report.read_bandwidth_gbps;
  }
  return report;
}

}  // namespace ondol::bench
