// Thread rule: one thread calls an Engine; it owns the requests, the pages and the kernels'
// threads.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "decode/sampler.h"
#include "engine/prefix_cache.h"
#include "engine/runner.h"
#include "gguf/gguf.h"
#include "scheduler/fair_share.h"
#include "scheduler/scheduler.h"
#include "tokenizer/tokenizer.h"

namespace ondol::engine {

struct EngineOptions {
  int n_ctx = 0;    ///< tokens per sequence; 0: the model's own, up to 32,768 and what fits
  int threads = 0;  ///< 0: one per usable core
  std::string isa;  ///< the value of ONDOL_ISA; empty: the best
  KvType type_k = KvType::kF16;
  KvType type_v = KvType::kF16;
  int n_sequences = 1;  ///< requests computed at once; more wait
  int max_rows = 512;   ///< rows of one forward pass
  int max_chunk = 512;  ///< rows of one request in a pass
  /// Computed pages are kept and used again by requests that begin with the same tokens. Answers
  /// are the same bits with and without.
  bool prefix_cache = true;
  /// Bytes of KV pages; 0: n_sequences whole contexts. With less, requests share what there is and
  /// wait for each other; with more, more is remembered.
  uint64_t kv_ram = 0;
};

enum class FinishReason : uint8_t {
  kNone,
  kEnd,     ///< the model ended its text
  kLength,  ///< max_tokens or the context was reached
  kError,   ///< no token could be chosen; Event::error says why
};

struct Request {
  std::vector<int32_t> prompt;
  decode::SamplingParams sampling;
  int max_tokens = -1;      ///< -1: up to the end of the context
  bool ignore_end = false;  ///< go on after an end token (benchmarks)
  /// Whose request it is: only requests with the same tenant share computed text. Part of the
  /// cache's key, never shown. Callers put into it whatever else must separate (a salt, an
  /// adapter).
  std::string tenant;
  int priority = 0;       ///< higher ones go first; among equals, tenants take turns
  bool use_cache = true;  ///< false: computes everything itself and leaves nothing behind
};

/// One new token of a request.
struct Event {
  uint64_t request = 0;
  decode::Sample sample;
  FinishReason finish =
      FinishReason::kNone;  ///< with kEnd the token is the end token itself: not part of the text
  std::optional<Error> error;  ///< with kError, instead of a sample
  /// Tokens of the prompt that were not computed but found in the cache when the request was first
  /// taken up; in every event of the request. At most the prompt's length less one.
  int cached_tokens = 0;
};

/// Why a prompt was not found whole in the cache.
enum class PrefixMiss : uint8_t {
  kNone,       ///< it was, but for the last token, which is always computed
  kOff,        ///< the cache is off, or the request did not use it
  kNeverSeen,  ///< nobody of this tenant had sent a prompt that goes on like this
  kEvicted,    ///< it was there, but its pages had to make room
  kWindow,     ///< it is known, but pages that a sliding window needs had to make room
};

/// What a request found in the cache. Says nothing about other tenants: what only they have sent
/// was never seen.
struct Explanation {
  uint64_t request = 0;
  int n_prompt = 0;
  int n_cached = 0;  ///< tokens not computed
  int n_known = 0;   ///< tokens that agree with known text; the first that differs is at this place
  PrefixMiss miss = PrefixMiss::kNone;
};

/// The facade: a model file, opened; requests in, tokens out.
class Engine {
 public:
  /// Opens and checks the file, chooses ISA, threads and context, reserves memory. Nothing large is
  /// allocated before it is known to fit (kNoMemory says needs and has).
  static Result<std::unique_ptr<Engine>> open(Env& env, const std::string& path,
                                              const EngineOptions& options);

  /// Queues a request. Usage error where the prompt is empty, holds an unknown id or leaves no room
  /// in the context (both numbers are named), or a sampling parameter is out of range.
  Result<uint64_t> submit(Request request);
  /// One step: admit waiting requests, plan the batch, compute it, choose tokens, report them.
  Result<std::vector<Event>> step();
  /// Ends a request; what it has computed goes to the cache, or is free at once.
  void cancel(uint64_t request);
  /// No request is waiting or under way.
  bool idle() const { return waiting_.empty() && active_.empty(); }

  /// Forgets all computed text that no request holds (before a measurement).
  void clear_cache();
  /// What the cache holds.
  kv::PrefixStats cache_stats() const { return cache_->tree().stats(); }
  /// What a request found when it was taken up; the last thousand are remembered.
  std::optional<Explanation> explain(uint64_t request) const;
  /// Times that a request had to give its pages to others and come back later.
  uint64_t n_parked() const { return n_parked_; }
  /// Whether the books of pages and cache agree (tests, idle time).
  Result<void> check_integrity() const;

  /// Logits of every position of one sequence, in order, in runs of a few rows: called with the
  /// first position and rows that are valid during the call. Stops at the callback's error. Every
  /// token is computed; the cache is empty afterwards.
  using LogitsCallback = std::function<Result<void>(int first, kernels::Rows logits)>;
  Result<void> evaluate(std::span<const int32_t> tokens, const LogitsCallback& callback);

  /// The level below, for measurements that choose their own batches. Not while requests are under
  /// way; clear_cache() gives it all pages.
  Runner& runner() { return *runner_; }
  /// What was opened, and what was chosen for it.
  const gguf::File& file() const { return file_; }
  const tokenizer::Tokenizer& tokenizer() const { return *tokenizer_; }
  const model::Model& model() const { return runner_->model(); }
  const MemoryPlan& memory() const { return memory_; }
  /// Tokens that a request can have at most, prompt and answer.
  int n_ctx() const { return options_.n_ctx; }
  int threads() const { return runner_->threads(); }
  simd::Isa isa() const { return isa_; }

 private:
  struct Task {
    uint64_t id;
    Request request;
    decode::Sampler sampler;
    std::vector<int32_t> tokens;             // prompt and what was generated
    int n_max = 0;                           // tokens in all when it ends
    std::optional<kv::SequencePages> pages;  // while it is computed
    int n_computed = 0;
    int n_published = 0;    // tokens that the cache has from it
    int n_cached = -1;      // tokens that it had from the cache at first; -1: not taken up yet
    uint64_t awaits = 0;    // the request whose pages it waits for
    int awaits_tokens = 0;  // until that has computed so many
    uint64_t no_room_at = UINT64_MAX;  // n_ended_ when pages were too short for it
  };

  explicit Engine(gguf::File file) : file_(std::move(file)) {}
  Result<void> check_prompt(std::span<const int32_t> prompt) const;
  std::unexpected<Error> prompt_too_long(int n_prompt, int capacity) const;
  void admit();
  bool has_slot() const;
  bool caches(const Task& task) const;
  bool prefix_is_coming(Task& task) const;
  bool take_up(Task& task);
  void remember(const Task& task, const std::optional<kv::Match>& match);
  bool fits_beside_others(const Task& task) const;
  std::vector<scheduler::Slice> schedule();
  bool make_room(std::span<const scheduler::Slice> plan);
  void park_one();
  scheduler::RequestState state_of(const Task& task) const;
  std::vector<scheduler::RequestState> active_states() const;
  Result<kernels::Rows> forward(std::span<const scheduler::Slice> plan);
  std::vector<Event> sample(std::span<const scheduler::Slice> plan, kernels::Rows logits);
  FinishReason finish_reason(const Task& a) const;
  void publish(std::span<const scheduler::Slice> plan);
  void leave_to_cache(Task& task);
  void retire(std::span<const Event> events);

  EngineOptions options_;
  gguf::File file_;
  std::unique_ptr<const tokenizer::Tokenizer> tokenizer_;
  simd::Isa isa_ = simd::Isa::kScalar;
  MemoryPlan memory_;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<PrefixCache> cache_;
  uint64_t next_id_ = 1;
  uint64_t n_ended_ = 0;
  uint64_t n_parked_ = 0;
  scheduler::FairShare share_;
  std::deque<Explanation> explanations_;
  std::vector<std::unique_ptr<Task>> waiting_;  // in order of arrival
  std::vector<std::unique_ptr<Task>> active_;   // in order of arrival
};

}  // namespace ondol::engine
