// What a step costs besides its forward pass, with many requests queued and many pages cached.
//
//   scheduling_bench [--pages N] [--queued N] [--slots N] [--prompt N] [--model FILE]
//
// First a prefix tree of --pages pages alone: inserting, and looking up prompts of growing length,
// which should cost the same per token. Then one step's decisions as the engine makes them, with
// --queued requests of --prompt tokens waiting: nothing free, and all --slots free at once. With
// --model, whole steps of a real engine: with and without the queue, and when all of it arrives at
// once with the same prompt (for which the model must have a context of --prompt tokens).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "kv/prefix_tree.h"
#include "scheduler/fair_share.h"
#include "scheduler/scheduler.h"

namespace ondol {
namespace {

constexpr int kPageTokens = 16;
constexpr int kTextPages = 1024;  // of one cached text

struct Options {
  uint32_t pages = 1'000'000;
  size_t queued = 1000;
  size_t slots = 8;
  size_t prompt = 4096;
  std::string model;
};

using Tokens = std::vector<int32_t>;

double now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// The median time of `rounds` runs, in seconds.
template <class Work>
double median_time(int rounds, Work work) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    const double begin = now();
    work(i);
    times.push_back(now() - begin);
  }
  std::ranges::nth_element(times, times.begin() + rounds / 2);
  return times[static_cast<size_t>(rounds / 2)];
}

/// A text by its number: a third of it is common to eight of them, so that the tree has branches.
Tokens text(uint32_t number, size_t n) {
  std::mt19937 common(number / 8), own(number + 1'000'000);
  Tokens tokens(n);
  for (size_t i = 0; i < n; ++i)
    tokens[i] = static_cast<int32_t>((i < n / 3 ? common() : own()) % 100'000);
  return tokens;
}

class Cache {
 public:
  explicit Cache(uint32_t pages) {
    groups_.push_back({kv::PagePool::create(64, pages + kTextPages).value(), 0});
    tree_.emplace(groups_, kPageTokens);
  }
  void fill(uint32_t pages) {
    const double begin = now();
    uint32_t n_texts = 0;
    for (; tree_->stats().pages[0] + kTextPages <= pages; ++n_texts) {
      const Tokens tokens = text(n_texts, kTextPages * kPageTokens);
      kv::SequencePages sequence(groups_, kPageTokens);
      if (!sequence.extend(static_cast<int>(tokens.size()))) break;
      const std::span<const kv::PageId> tables[] = {sequence.table(0)};
      tree_->insert("tenant", tokens, tables, true);
    }
    n_texts_ = n_texts;
    const auto stats = tree_->stats();
    std::printf("%llu pages of %u texts cached in %.1f s\n",
                static_cast<unsigned long long>(stats.pages[0]), n_texts, now() - begin);
  }
  const kv::PrefixTree& tree() const { return *tree_; }
  uint32_t n_texts() const { return n_texts_; }

 private:
  std::vector<kv::Group> groups_;
  std::optional<kv::PrefixTree> tree_;
  uint32_t n_texts_ = 0;
};

void measure_lookups(const Cache& cache) {
  std::printf("\n%8s %12s %12s\n", "prompt", "lookup, us", "ns per token");
  for (size_t n = 256; n <= kTextPages * kPageTokens; n *= 2) {
    std::vector<Tokens> prompts;
    for (uint32_t i = 0; i < 64; ++i) {
      // Texts far apart, so that what one lookup read is not in the processor's caches for the
      // next.
      Tokens whole = text(i * 769 % cache.n_texts(), kTextPages * kPageTokens);
      whole.resize(n);
      prompts.push_back(std::move(whole));
    }
    int found = 0;
    const double seconds = median_time(64, [&](int i) {
      found += cache.tree().lookup("tenant", prompts[static_cast<size_t>(i)]).n_tokens;
    });
    if (static_cast<size_t>(found) != 64 * n)
      std::printf("(only %d of %zu tokens found) ", found, 64 * n);
    std::printf("%8zu %12.1f %12.1f\n", n, seconds * 1e6, seconds * 1e9 / static_cast<double>(n));
  }
}

/// Whose turn it is, who gets pages and which rows are computed.
void measure_decisions(const Cache& cache, const Options& options) {
  std::vector<Tokens> prompts;
  scheduler::FairShare share;
  std::vector<std::string> tenants;
  for (size_t i = 0; i < options.queued; ++i) {
    Tokens whole = text(static_cast<uint32_t>(i) % cache.n_texts(), kTextPages * kPageTokens);
    whole.resize(options.prompt);
    prompts.push_back(std::move(whole));
    tenants.push_back("tenant-" + std::to_string(i % 50));
    share.enter(tenants.back());
  }
  int sum = 0;
  const auto step = [&](size_t free) {
    std::vector<scheduler::RequestState> waiting, active;
    for (const auto& tenant : tenants)
      waiting.push_back(
          {.n_pending = static_cast<int>(options.prompt), .served = share.served(tenant)});
    if (free > 0) {
      const auto order = scheduler::turn_order(waiting);
      for (size_t i = 0; i < free; ++i) {
        const auto match = cache.tree().lookup("tenant", prompts[order[i]]);
        active.push_back({.n_pending = static_cast<int>(options.prompt) - match.n_tokens + 1});
      }
    }
    while (active.size() < options.slots) active.push_back({.n_pending = 1});
    const auto plan = scheduler::plan_step(active, {});
    for (const auto& slice : plan) sum += slice.n_rows;
    share.charge(tenants[static_cast<size_t>(sum) % tenants.size()], 512, 1);
  };
  const double none = median_time(200, [&](int) { step(0); });
  const double all = median_time(200, [&](int) { step(options.slots); });
  std::printf("\n%zu queued, prompts of %zu tokens, %zu slots (%d rows planned)\n", options.queued,
              options.prompt, options.slots, sum);
  std::printf("decisions of a step that takes up nobody   %8.1f us\n", none * 1e6);
  std::printf("of one that takes up a request per slot    %8.1f us\n", all * 1e6);
}

std::unique_ptr<engine::Engine> open(const Options& options, int n_ctx) {
  auto opened = engine::Engine::open(
      Env::real(), options.model, {.n_ctx = n_ctx, .n_sequences = static_cast<int>(options.slots)});
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().message.c_str());
    std::exit(1);
  }
  return std::move(*opened);
}

/// Whole steps of an engine that `n` requests with the same new prompt reach at once: one computes
/// it, the others are looked at in every step and wait for it. Milliseconds of the first steps.
void measure_arrivals(const Options& options, size_t n) {
  const int n_prompt = static_cast<int>(options.prompt);
  const auto engine = open(options, n_prompt + 16);
  for (size_t i = 0; i < n; ++i) {
    engine::Request request{.prompt = Tokens(options.prompt, 7), .max_tokens = 1};
    request.prompt.back() = static_cast<int32_t>(i % 200);
    if (!engine->submit(std::move(request))) std::exit(1);
  }
  std::printf("%zu requests with one new prompt of %d tokens; their steps, ms:", n, n_prompt);
  for (int i = 0; i < 6; ++i) {
    const double begin = now();
    if (!engine->step()) std::exit(1);
    std::printf(" %.1f", (now() - begin) * 1e3);
  }
  std::printf("\n");
}

/// Whole steps of an engine whose slots are all taken.
void measure_engine(const Options& options) {
  const auto opened = open(options, 256);
  engine::Engine& engine = *opened;
  const auto submit = [&](size_t n) {
    for (size_t i = 0; i < n; ++i) {
      engine::Request request{.prompt = {5, 6, 7, static_cast<int32_t>(i % 200)},
                              .max_tokens = 240,
                              .ignore_end = true,
                              .tenant = "tenant-" + std::to_string(i % 50)};
      if (!engine.submit(std::move(request))) std::exit(1);
    }
  };
  const auto steps = [&] {
    return median_time(100, [&](int) {
      if (!engine.step()) std::exit(1);
    });
  };
  submit(options.slots);
  for (int i = 0; i < 30; ++i) static_cast<void>(engine.step());
  const double alone = steps();
  submit(options.queued);
  const double queued = steps();
  std::printf("\na step of %zu requests %.1f us; with %zu more queued %.1f us\n", options.slots,
              alone * 1e6, options.queued, queued * 1e6);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--model") {
      options.model = value;
      continue;
    }
    const auto number = static_cast<uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
    if (name == "--pages" && number >= 64 * kTextPages) {
      options.pages = number;
    } else if (name == "--queued" && number > 0) {
      options.queued = number;
    } else if (name == "--slots" && number > 0) {
      options.slots = number;
    } else if (name == "--prompt" && number > 0 && number <= kTextPages * kPageTokens) {
      options.prompt = number;
    } else {
      std::fprintf(stderr, "what is %s %s? See the head of scheduling_bench.cc\n", argv[i],
                   argv[i + 1]);
      std::exit(2);
    }
  }
  options.slots = std::min(options.slots, options.queued);
  return options;
}

}  // namespace
}  // namespace ondol

int main(int argc, char** argv) {
  const auto options = ondol::parse(argc, argv);
  {
    ondol::Cache cache(options.pages);
    cache.fill(options.pages);
    ondol::measure_lookups(cache);
    ondol::measure_decisions(cache, options);
  }
  if (options.model.empty()) return 0;
  ondol::measure_engine(options);
  ondol::measure_arrivals(options, options.slots);
  ondol::measure_arrivals(options, options.queued);
}
