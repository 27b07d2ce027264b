#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/cpu_budget.h"

namespace ondol::engine {

Result<std::unique_ptr<Engine>> Engine::open(Env& env, const std::string& path,
                                             const EngineOptions& options) {
  if (options.n_sequences < 1 || options.max_chunk < 1 || options.max_rows < options.n_sequences) {
    return usage_error("a step needs at least one row for each sequence");
  }
  auto file = gguf::File::open(env, path);
  if (!file) return propagate(file);
  auto tokenizer = tokenizer::Tokenizer::load(*file);
  if (!tokenizer) return propagate(std::move(tokenizer));
  auto model = model::Model::load(*file);
  if (!model) return propagate(std::move(model));
  const auto isa = simd::choose_isa(options.isa);
  if (!isa) return propagate(isa);

  std::unique_ptr<Engine> engine(new Engine(*file));
  engine->options_ = options;
  engine->tokenizer_ = std::move(*tokenizer);
  engine->isa_ = *isa;
  MemoryShape shape{.n_sequences = options.n_sequences,
                    .max_rows = options.max_rows,
                    .max_chunk = std::min(options.max_chunk, options.max_rows),
                    .type_k = options.type_k,
                    .type_v = options.type_v,
                    .kv_ram = options.kv_ram};
  const auto context =
      choose_context(**model, file->size_bytes(), shape, options.n_ctx, env.available_memory());
  if (!context) return propagate(context);
  shape.n_ctx = engine->options_.n_ctx = *context;
  engine->memory_ = plan_memory(**model, file->size_bytes(), shape);
  const int threads = options.threads > 0 ? options.threads : default_threads(cpu_facts());
  auto runner = Runner::create(std::move(*model), shape, *isa, threads);
  if (!runner) return propagate(std::move(runner));
  engine->runner_ = std::move(*runner);
  if (options.repack) {
    engine->runner_->pack_weights(
        file->size_bytes(),
        [file = *file](std::span<const std::byte> bytes) { file.forget(bytes); });
  }
  engine->cache_ = std::make_unique<PrefixCache>(*engine->runner_);
  return engine;
}

Result<void> Engine::check_prompt(std::span<const int32_t> prompt) const {
  if (prompt.empty()) return usage_error("the prompt is empty; give at least one token");
  const int n_vocab = model().config().n_vocab;
  for (const int32_t token : prompt) {
    if (token < 0 || token >= n_vocab) {
      return usage_error(
          fmt::format("token {} is outside the model's vocabulary of {}", token, n_vocab));
    }
  }
  return {};
}

Result<uint64_t> Engine::submit(Request request) {
  if (const auto valid = check_prompt(request.prompt); !valid) return propagate(valid);
  auto sampler = decode::Sampler::make(request.sampling, model().config().n_vocab);
  if (!sampler) return propagate(std::move(sampler));
  const int n_prompt = static_cast<int>(request.prompt.size());
  const int capacity = std::min(n_ctx(), runner_->capacity());
  if (n_prompt >= capacity) return prompt_too_long(n_prompt, capacity);
  if (request.max_tokens == 0) return usage_error("at least one token must be asked for");
  const int room = capacity - n_prompt;
  const int wanted = request.max_tokens < 0 ? room : std::min(request.max_tokens, room);
  auto tokens = request.prompt;
  share_.enter(request.tenant);
  waiting_.push_back(std::make_unique<Task>(Task{.id = next_id_,
                                                 .request = std::move(request),
                                                 .sampler = std::move(*sampler),
                                                 .tokens = std::move(tokens),
                                                 .n_max = n_prompt + wanted}));
  return next_id_++;
}

std::unexpected<Error> Engine::prompt_too_long(int n_prompt, int capacity) const {
  if (capacity == n_ctx()) {
    return usage_error(fmt::format(
        "the prompt has {} tokens, but the context of {} must also hold the answer; shorten "
        "the prompt or choose a larger context with --ctx",
        n_prompt, capacity));
  }
  return usage_error(fmt::format(
      "the prompt has {} tokens, but the memory for KV pages holds {}, and the answer needs some "
      "as well; shorten the prompt or give more with --kv-ram",
      n_prompt, capacity));
}

Result<std::vector<Event>> Engine::step() {
  admit();
  const auto plan = schedule();
  const auto logits = forward(plan);
  if (!logits) return propagate(logits);
  auto events = sample(plan, *logits);
  publish(plan);
  retire(events);
  return events;
}

Result<kernels::Rows> Engine::forward(std::span<const scheduler::Slice> plan) {
  std::vector<Piece> pieces;
  for (const auto& slice : plan) {
    Task& a = *active_[slice.request];
    const auto rows = std::span(a.tokens).subspan(static_cast<size_t>(a.n_computed),
                                                  static_cast<size_t>(slice.n_rows));
    const bool last = a.n_computed + slice.n_rows == static_cast<int>(a.tokens.size());
    pieces.push_back(
        {.pages = &*a.pages, .tokens = rows, .first_pos = a.n_computed, .n_logits = last ? 1 : 0});
  }
  if (pieces.empty()) return kernels::Rows{};
  return runner_->run(pieces);
}

std::vector<Event> Engine::sample(std::span<const scheduler::Slice> plan, kernels::Rows logits) {
  std::vector<Event> events;
  int row = 0;
  for (const auto& slice : plan) {
    Task& a = *active_[slice.request];
    a.n_computed += slice.n_rows;
    if (a.n_computed < static_cast<int>(a.tokens.size())) continue;
    const std::span<const float> values(logits.row(row++), static_cast<size_t>(logits.width));
    Event event{.request = a.id, .sample = {}, .error = {}, .cached_tokens = a.n_cached};
    auto chosen = a.sampler.sample(values, a.tokens, 0, a.tokens.size());
    if (!chosen) {
      event.finish = FinishReason::kError;
      event.error = std::move(chosen).error();
    } else {
      event.sample = std::move(*chosen);
      a.tokens.push_back(event.sample.token);
      event.finish = finish_reason(a);
    }
    events.push_back(std::move(event));
  }
  return events;
}

FinishReason Engine::finish_reason(const Task& a) const {
  if (tokenizer_->is_end(a.tokens.back()) && !a.request.ignore_end) return FinishReason::kEnd;
  return static_cast<int>(a.tokens.size()) >= a.n_max ? FinishReason::kLength : FinishReason::kNone;
}

void Engine::retire(std::span<const Event> events) {
  for (const Event& event : events) {
    if (event.finish != FinishReason::kNone) cancel(event.request);
  }
}

Result<void> Engine::evaluate(std::span<const int32_t> tokens, const LogitsCallback& callback) {
  if (const auto valid = check_prompt(tokens); !valid) return valid;
  if (tokens.size() > static_cast<size_t>(n_ctx())) {
    return usage_error(
        fmt::format("there are {} tokens, but the context holds {}; choose a larger one with --ctx",
                    tokens.size(), n_ctx()));
  }
  clear_cache();
  kv::SequencePages pages = runner_->new_sequence();
  const size_t run =
      static_cast<size_t>(std::min({kEvaluateRows, options_.max_rows, options_.max_chunk}));
  for (size_t first = 0; first < tokens.size(); first += run) {
    const auto part = tokens.subspan(first, std::min(run, tokens.size() - first));
    const Piece piece{.pages = &pages,
                      .tokens = part,
                      .first_pos = static_cast<int>(first),
                      .n_logits = static_cast<int>(part.size())};
    const auto logits = runner_->run({&piece, 1});
    if (!logits) return propagate(logits);
    if (const auto done = callback(static_cast<int>(first), *logits); !done) return done;
  }
  return {};
}

}  // namespace ondol::engine
