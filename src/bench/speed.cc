#include "bench/speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "bench/roofline.h"

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

constexpr size_t kChunk = 512;

int32_t most_probable(const kernels::Rows& logits, int row) {
  const float* first = logits.row(row);
  return static_cast<int32_t>(std::max_element(first, first + logits.width) - first);
}

/// One sequence, its place and the token it goes on with.
struct Stream {
  kv::SequencePages pages;
  int position = 0;
  int32_t token = 0;
};

/// What a measurement works with.
struct Bench {
  Env& env;
  engine::Runner& runner;
  const SpeedOptions& options;
  const std::function<bool()>& stop;
  std::vector<int32_t> tokens;  ///< random; the first `depth` come before what is measured

  std::span<const int32_t> before() const {
    return std::span(tokens).first(static_cast<size_t>(options.depth));
  }

  /// Computes `part` in chunks, and which token is the most probable next.
  Result<void> feed(Stream& stream, std::span<const int32_t> part) const {
    for (; !part.empty(); part = part.subspan(std::min(kChunk, part.size()))) {
      if (stop()) return fail(ErrorKind::kInterrupted, "interrupted");
      const auto chunk = part.first(std::min(kChunk, part.size()));
      const engine::Piece piece{.pages = &stream.pages,
                                .tokens = chunk,
                                .first_pos = stream.position,
                                .n_logits = chunk.size() == part.size() ? 1 : 0};
      const auto logits = runner.run({&piece, 1});
      if (!logits) return propagate(logits);
      stream.position += static_cast<int>(chunk.size());
      if (piece.n_logits > 0) stream.token = most_probable(*logits, 0);
    }
    return {};
  }

  /// One more token of every stream, in one pass.
  Result<void> step(std::vector<Stream>& streams) const {
    if (stop()) return fail(ErrorKind::kInterrupted, "interrupted");
    std::vector<engine::Piece> pieces;
    for (Stream& stream : streams) {
      pieces.push_back({.pages = &stream.pages,
                        .tokens = {&stream.token, 1},
                        .first_pos = stream.position++,
                        .n_logits = 1});
    }
    const auto logits = runner.run(pieces);
    if (!logits) return propagate(logits);
    for (size_t i = 0; i < streams.size(); ++i)
      streams[i].token = most_probable(*logits, static_cast<int>(i));
    return {};
  }

  /// Tokens/s of a prompt after `depth` tokens.
  Result<double> prefill() const {
    Stream stream{.pages = runner.new_sequence()};
    if (const auto fed = feed(stream, before()); !fed) return propagate(fed);
    const auto prompt =
        std::span(tokens).subspan(before().size(), static_cast<size_t>(options.n_prompt));
    const auto start = env.now();
    if (const auto fed = feed(stream, prompt); !fed) return propagate(fed);
    return options.n_prompt / Seconds(env.now() - start).count();
  }

  /// Tokens/s of `sequences` decoded together after `depth` tokens each.
  Result<double> decode(int sequences) const {
    std::vector<Stream> streams;
    for (int i = 0; i < sequences; ++i) {
      streams.push_back({.pages = runner.new_sequence()});
      if (const auto fed = feed(streams.back(), before()); !fed) return propagate(fed);
      // Different texts, as of different users.
      streams.back().token = tokens[static_cast<size_t>(i) % tokens.size()];
    }
    const auto start = env.now();
    for (int i = 0; i < options.n_generate; ++i) {
      if (const auto stepped = step(streams); !stepped) return propagate(stepped);
    }
    return sequences * options.n_generate / Seconds(env.now() - start).count();
  }

  /// Before the clock runs: the weights are paged in and, for decode, packed; the threads are
  /// awake.
  Result<void> warm_up() const {
    constexpr auto kPasses = static_cast<int>(kernels::kPackShare) + 8;  // then all is packed
    for (int i = 0; i < (options.n_generate > 0 ? kPasses : 1); ++i) {
      Stream stream{.pages = runner.new_sequence()};
      const auto fed = feed(stream, std::span(tokens).first(std::min<size_t>(tokens.size(), 8)));
      if (!fed) return fed;
    }
    return {};
  }
};

Result<void> add(std::vector<double>& to, const Result<double>& tps) {
  if (!tps) return propagate(tps);
  to.push_back(*tps);
  return {};
}

Result<void> one_repetition(const Bench& bench, SpeedReport& report) {
  if (bench.options.n_prompt > 0) {
    if (const auto done = add(report.pp, bench.prefill()); !done) return done;
  }
  if (bench.options.n_generate == 0) return {};
  if (const auto done = add(report.tg, bench.decode(1)); !done) return done;
  for (BatchSpeed& batch : report.batches) {
    if (const auto done = add(batch.tps, bench.decode(batch.sequences)); !done) return done;
  }
  return {};
}

Result<void> check(const engine::Engine& engine, const SpeedOptions& options) {
  if (options.n_prompt == 0 && options.n_generate == 0)
    return usage_error("there is nothing to measure; give -p or -n a number above zero");
  const int longest = options.depth + std::max(options.n_prompt, options.n_generate);
  if (longest > engine.n_ctx()) {
    return usage_error(fmt::format(
        "depth and tokens are {} together, but the context holds {}; choose fewer or a larger "
        "one with --ctx",
        longest, engine.n_ctx()));
  }
  if (!options.batches.empty() && options.n_generate == 0)
    return usage_error("--batch measures decode: give -n the tokens to generate, at least 1");
  return {};
}

/// The figures that follow from the tokens/s.
void conclude(Env& env, const engine::Engine& engine, const SpeedOptions& options,
              SpeedReport& report) {
  std::ranges::sort(report.pp);
  std::ranges::sort(report.tg);
  const double single = median(report.tg);
  for (BatchSpeed& batch : report.batches) {
    std::ranges::sort(batch.tps);
    const double together = median(batch.tps);
    batch.v = together > 0 ? batch.sequences * single / together : 0;
  }
  report.weight_bytes_per_token = engine.model().weight_bytes_per_token();
  report.peak_rss_bytes = peak_memory(env);
  report.read_bandwidth_gbps = measure_read_bandwidth(env, engine.threads());
  if (report.read_bandwidth_gbps > 0) {
    report.share_of_bandwidth = single * static_cast<double>(report.weight_bytes_per_token) / 1e9 /
                                report.read_bandwidth_gbps;
  }
  report.clock_ghz = measure_clock(env, engine.threads());
  if (options.n_prompt == 0) return;
  const MultiplyAdds work = multiply_adds(engine.file());
  // Only the last row of a prompt becomes logits.
  report.prefill_multiply_adds_per_token = work.layers + work.head / options.n_prompt;
  if (report.clock_ghz > 0) {
    report.prefill_mac_per_cycle_per_core = median(report.pp) *
                                            report.prefill_multiply_adds_per_token /
                                            (engine.threads() * report.clock_ghz * 1e9);
  }
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Result<SpeedReport> measure_speed(Env& env, engine::Engine& engine, const SpeedOptions& options,
                                  const std::function<void(int)>& progress,
                                  const std::function<bool()>& stop) {
  if (const auto possible = check(engine, options); !possible) return propagate(possible);
  const Bench bench{
      .env = env,
      .runner = engine.runner(),
      .options = options,
      .stop = stop,
      .tokens = random_tokens(engine.model().config().n_vocab,
                              options.depth + std::max(1, options.n_prompt)),
  };
  SpeedReport report;
  for (const int sequences : options.batches) report.batches.push_back({.sequences = sequences});
  if (const auto warmed = bench.warm_up(); !warmed) return propagate(warmed);
  for (int i = 0; i < options.repetitions; ++i) {
    progress(i);
    if (const auto done = one_repetition(bench, report); !done) return propagate(done);
  }
  conclude(env, engine, options, report);
  return report;
}

}  // namespace ondol::bench
