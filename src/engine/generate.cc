#include "engine/generate.h"

#include <chrono>

#include "engine/text_stream.h"

namespace ondol::engine {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

/// Gives text out and keeps it.
Result<void> give(Generation& answer, const GenerateOptions& options, const std::string& text) {
  if (text.empty()) return {};
  answer.text += text;
  return options.on_text ? options.on_text(text) : Result<void>();
}

/// Takes one event over; true when the answer is complete.
Result<bool> take(const Event& event, TextStream& stream, Generation& answer,
                  const GenerateOptions& options) {
  if (event.error) return std::unexpected(*event.error);
  ++answer.n_steps;
  answer.n_cached = event.cached_tokens;
  if (event.finish != FinishReason::kEnd) {
    answer.tokens.push_back(event.sample.token);
    if (const auto given = give(answer, options, stream.push(event.sample.token)); !given)
      return propagate(given);
  }
  if (stream.stopped() || event.finish == FinishReason::kEnd) {
    answer.finish_reason = "stop";
  } else if (event.finish == FinishReason::kLength) {
    answer.finish_reason = "length";
  } else {
    return false;
  }
  if (const auto given = give(answer, options, stream.finish()); !given) return propagate(given);
  // A stop text may have been completed by what was held back.
  if (stream.stopped()) answer.finish_reason = "stop";
  return true;
}

}  // namespace

double Generation::decode_tps() const {
  // The first token belongs to the prefill.
  return decode_ms > 0 && n_steps > 1 ? (n_steps - 1) / decode_ms * 1e3 : 0;
}

Result<Generation> generate(Env& env, Engine& engine, Request request,
                            const GenerateOptions& options) {
  auto stream = TextStream::make(engine.tokenizer(), options.stops, options.special);
  if (!stream) return propagate(std::move(stream));
  Generation answer{.n_prompt = static_cast<int>(request.prompt.size())};
  const auto id = engine.submit(std::move(request));
  if (!id) return propagate(id);
  const auto start = env.now();
  auto first = start;
  bool complete = false;
  Result<void> outcome;
  while (!complete && outcome) {
    const auto events = engine.step();
    if (!events) outcome = propagate(events);
    if (outcome && options.interrupted && options.interrupted()) {
      outcome = fail(ErrorKind::kInterrupted, "interrupted");
    }
    if (!outcome) break;
    for (const Event& event : *events) {
      if (first == start) first = env.now();
      const auto done = take(event, *stream, answer, options);
      if (!done) outcome = propagate(done);
      complete = done.value_or(true);
      if (complete) break;
    }
  }
  engine.cancel(*id);
  if (!outcome) return propagate(outcome);
  answer.prefill_ms = Milliseconds(first - start).count();
  answer.decode_ms = Milliseconds(env.now() - first).count();
  return answer;
}

}  // namespace ondol::engine
