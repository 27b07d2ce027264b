#include "serve/openai_answer.h"

#include <algorithm>

#include "serve/sse.h"

namespace ondol::serve {
namespace {

constexpr std::chrono::seconds kQuiet{15};

/// The seed of one of several answers to a prompt: the given one for the first, others drawn from
/// it (the finaliser of Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// 2014).
uint64_t seed_of(uint64_t seed, uint64_t number) {
  if (number == 0) return seed;
  uint64_t z = seed + number * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/// Code points that begin in these bytes.
int letters_in(std::string_view bytes) {
  return static_cast<int>(std::ranges::count_if(bytes, [](char c) { return (c & 0xC0) != 0x80; }));
}

double seconds_between(Answer::Clock::time_point from, Answer::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Answer::Answer(engine::Service& service, Metrics& metrics, AnswerPlan plan,
               std::shared_ptr<Responder> responder)
    : service_(service),
      metrics_(metrics),
      plan_(std::move(plan)),
      responder_(std::move(responder)),
      last_write_(arrived_) {}

std::shared_ptr<Answer> Answer::start(engine::Service& service, Metrics& metrics, AnswerPlan plan,
                                      std::shared_ptr<Responder> responder) {
  std::shared_ptr<Answer> answer(
      new Answer(service, metrics, std::move(plan), std::move(responder)));
  if (!answer->prepare()) return answer;
  answer->responder_->on_gone([weak = std::weak_ptr<Answer>(answer)] {
    if (const auto there = weak.lock()) there->cancel();
  });
  answer->submit();
  return answer;
}

bool Answer::prepare() {
  const std::lock_guard lock(mutex_);
  for (const TokenIds& prompt : plan_.prompts) {
    for (int i = 0; i < plan_.settings.n; ++i) {
      auto stream =
          engine::TextStream::make(service_.engine().tokenizer(), plan_.settings.stops, false);
      if (!stream) {
        auto error = to_api_error(stream.error());
        error.param = "stop";
        fail(error);
        return false;
      }
      choices_.push_back(
          {.stream = std::move(*stream), .n_prompt = static_cast<int>(prompt.size())});
    }
  }
  n_open_ = choices_.size();
  return true;
}

void Answer::submit() {
  std::vector<engine::Job> jobs;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const auto n = static_cast<size_t>(plan_.settings.n);
    engine::Request request{.prompt = plan_.prompts[i / n],
                            .sampling = plan_.settings.sampling,
                            .max_tokens = plan_.settings.max_tokens,
                            .ignore_end = plan_.settings.ignore_end,
                            .tenant = plan_.tenant};
    if (auto& seed = request.sampling.seed) *seed = seed_of(*seed, i % n);
    jobs.push_back({std::move(request), [self = shared_from_this(), i](const engine::Event& event) {
                      return self->on_event(i, event);
                    }});
  }
  auto ids = service_.submit(std::move(jobs));
  if (!ids) {
    const std::lock_guard lock(mutex_);
    fail(to_api_error(ids.error()));
    return;
  }
  {
    const std::lock_guard lock(ids_mutex_);
    ids_ = std::move(*ids);
  }
  // The client may have left, or a choice failed, before the ids were known.
  if (gone_) cancel();
}

void Answer::cancel() {
  gone_ = true;
  const std::lock_guard lock(ids_mutex_);
  for (const uint64_t id : ids_) service_.cancel(id);
}

bool Answer::on_event(size_t index, const engine::Event& event) {
  const std::lock_guard lock(mutex_);
  if (!over_ && gone_) {
    over_ = true;
    metrics_.count_error("client_gone");
    metrics_.count_tokens(plan_.client, usage().prompt, usage().cached, usage().completion);
    report();
  }
  if (over_) return false;
  if (event.error) {
    fail(to_api_error(*event.error));
    return false;
  }
  Choice& choice = choices_[index];
  std::string text;
  take_token(choice, event, text);
  give(index, std::move(text));
  if (choice.finish.empty()) return true;
  if (choice.n_steps > 1) {
    metrics_.observe_per_token(seconds_between(choice.first, choice.last) / (choice.n_steps - 1));
  }
  if (--n_open_ == 0 && !gone_) complete();
  return false;
}

/// One token: the text that it lets out, and whether the choice ends with it.
void Answer::take_token(Choice& choice, const engine::Event& event, std::string& text) {
  choice.last = Clock::now();
  choice.n_cached = event.cached_tokens;
  if (choice.n_steps++ == 0) {
    choice.first = choice.last;
    metrics_.observe_first_token(seconds_between(arrived_, choice.first));
  }
  if (event.finish != engine::FinishReason::kEnd) {
    const auto& tokenizer = service_.engine().tokenizer();
    const std::string_view piece = tokenizer.piece(event.sample.token, false);
    ++choice.n_tokens;
    if (plan_.settings.logprobs) {
      TokenLogprob entry{.bytes = std::string(tokenizer.piece(event.sample.token, true)),
                         .logprob = event.sample.logprob.value_or(0),
                         .text_offset = choice.n_letters};
      for (const auto& other : event.sample.alternatives)
        entry.top.emplace_back(tokenizer.piece(other.token, true), other.logprob);
      choice.held.push_back(std::move(entry));
    }
    choice.n_letters += letters_in(piece);
    text = choice.stream.push(event.sample.token);
  }
  if (choice.stream.stopped() || event.finish == engine::FinishReason::kEnd) {
    choice.finish = "stop";
  } else if (event.finish == engine::FinishReason::kLength) {
    choice.finish = "length";
  } else {
    return;
  }
  text += choice.stream.finish();
  // A stop text may have been completed by what was held back.
  if (choice.stream.stopped()) choice.finish = "stop";
  // Tokens of the stop text itself are no part of the answer.
  if (choice.stream.stopped() && text.empty()) choice.held.clear();
}

void Answer::give(size_t index, std::string text) {
  Choice& choice = choices_[index];
  std::vector<TokenLogprob> logprobs;
  if (!text.empty() || !choice.finish.empty()) logprobs = std::exchange(choice.held, {});
  if (!plan_.settings.stream) {
    choice.text += text;
    std::ranges::move(logprobs, std::back_inserter(choice.logprobs));
    return;
  }
  if (text.empty() && choice.finish.empty()) return;
  begin_stream();
  Piece piece{.index = static_cast<int>(index),
              .text = std::move(text),
              .first = !choice.role_sent,
              .logprobs = plan_.settings.logprobs ? &logprobs : nullptr,
              .finish = choice.finish};
  choice.role_sent = true;
  auto event = chunk(plan_.head, piece, plan_.settings.include_usage);
  if (!choice.finish.empty() && n_open_ == 1) event["timings"] = to_json(timings());
  write(sse_event(event));
}

void Answer::begin_stream() {
  if (streaming_) return;
  streaming_ = true;
  Headers headers = plan_.headers;
  headers.emplace_back("Content-Type", kEventStream);
  headers.emplace_back("Cache-Control", "no-cache");
  headers.emplace_back("X-Accel-Buffering", "no");
  responder_->start_stream(200, std::move(headers));
}

void Answer::write(std::string part) {
  last_write_ = Clock::now();
  // Given up: the rest of the choices are not computed for nobody.
  if (!responder_->write(std::move(part))) cancel();
}

void Answer::complete() {
  over_ = true;
  const Usage used = usage();
  metrics_.count_tokens(plan_.client, used.prompt, used.cached, used.completion);
  report();
  if (plan_.settings.stream) {
    if (plan_.settings.include_usage) write(sse_event(usage_chunk(plan_.head, used)));
    write(std::string(kSseDone));
    responder_->end();
  } else {
    std::vector<Piece> pieces;
    for (Choice& choice : choices_) {
      pieces.push_back({.index = static_cast<int>(pieces.size()),
                        .text = std::move(choice.text),
                        .logprobs = plan_.settings.logprobs ? &choice.logprobs : nullptr,
                        .finish = choice.finish});
    }
    Headers headers = plan_.headers;
    headers.emplace_back("Content-Type", "application/json");
    responder_->send(200, std::move(headers),
                     to_json_line(whole_answer(plan_.head, pieces, used, timings())));
  }
  responder_.reset();
}

/// Answers with an error: as such where nothing has been sent, as an event of the stream else.
void Answer::fail(const ApiError& error) {
  over_ = true;
  metrics_.count_error(error_kind(error.status));
  report();
  if (streaming_) {
    responder_->write(sse_event(error_json(error)));
    responder_->end();
  } else {
    Headers headers = plan_.headers;
    std::ranges::copy(error.headers, std::back_inserter(headers));
    headers.emplace_back("Content-Type", "application/json");
    responder_->send(error.status, std::move(headers), to_json_line(error_json(error)));
  }
  responder_.reset();
  cancel();
}

/// Tells the responder what the answer took so far.
void Answer::report() {
  const Usage used = usage();
  responder_->report({.prompt_tokens = used.prompt,
                      .cached_tokens = used.cached,
                      .completion_tokens = used.completion,
                      .first_token_seconds = timings().prefill_ms / 1e3});
}

Usage Answer::usage() const {
  Usage usage;
  // A prompt counts once, however many answers it has.
  for (size_t i = 0; i < choices_.size(); ++i) {
    usage.completion += choices_[i].n_tokens;
    if (i % static_cast<size_t>(plan_.settings.n) != 0) continue;
    usage.prompt += choices_[i].n_prompt;
    usage.cached += choices_[i].n_cached;
  }
  return usage;
}

Timings Answer::timings() const {
  Clock::time_point first = Clock::time_point::max(), last = arrived_;
  Timings timings;
  for (const Choice& choice : choices_) {
    if (choice.n_steps == 0) continue;
    first = std::min(first, choice.first);
    last = std::max(last, choice.last);
    timings.n_decoded += choice.n_steps - 1;
  }
  if (first > last) return timings;
  timings.prefill_ms = seconds_between(arrived_, first) * 1e3;
  timings.decode_ms = seconds_between(first, last) * 1e3;
  timings.n_computed = usage().prompt - usage().cached;
  return timings;
}

void Answer::tick(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (over_ || !plan_.settings.stream || now - last_write_ < kQuiet) return;
  begin_stream();
  write(std::string(kSseKeepAlive));
}

KeepAlive::KeepAlive() : thread_([this] { run(); }) {}

KeepAlive::~KeepAlive() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void KeepAlive::add(std::weak_ptr<Answer> answer) {
  const std::lock_guard lock(mutex_);
  answers_.push_back(std::move(answer));
}

void KeepAlive::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::seconds(1), [&] { return ended_; })) {
    std::erase_if(answers_, [](const auto& answer) { return answer.expired(); });
    const auto answers = answers_;
    lock.unlock();
    for (const auto& weak : answers) {
      if (const auto answer = weak.lock()) answer->tick(Answer::Clock::now());
    }
    lock.lock();
  }
}

}  // namespace ondol::serve
