#include "engine/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

namespace ondol::engine {
namespace {

constexpr double kSmoothing = 0.1;  // weight of the newest request in the average
constexpr int kLongestRetry = 60;   // seconds

Error cancelled() { return {ErrorKind::kInterrupted, "the request was cancelled"}; }
Error stopped() { return {ErrorKind::kInterrupted, "the server is shutting down"}; }

}  // namespace

Service::Service(Env& env, std::unique_ptr<Engine> engine, ServiceOptions options)
    : env_(env),
      engine_(std::move(engine)),
      options_(std::move(options)),
      last_end_(env.now()),
      thread_([this] { run(); }) {}

Service::~Service() {
  stop(Stop::kCancel);
  join();
}

std::expected<std::vector<uint64_t>, Refusal> Service::submit(std::vector<Job> jobs) {
  const std::lock_guard lock(mutex_);
  const auto n = static_cast<int>(jobs.size());
  const int room = options_.n_sequences + options_.max_queue;
  const auto refuse = [&](Refusal refusal) {
    ++counts_.refused;
    return std::unexpected(std::move(refusal));
  };
  if (stopping_) {
    return refuse({Refusal::Kind::kStopping, 1, "the server is shutting down; try again later"});
  }
  if (n > room) {
    return refuse({Refusal::Kind::kTooMany, 1,
                   fmt::format("{} answers were asked for at once, but this server takes {}; ask "
                               "for fewer",
                               n, room)});
  }
  if (n_accepted_live_ + n > room) {
    const int seconds = retry_after();
    return refuse({Refusal::Kind::kFull, seconds,
                   fmt::format("{} requests are waiting already, the most that this server takes; "
                               "try again in {} s",
                               options_.max_queue, seconds)});
  }
  std::vector<uint64_t> ids;
  for (Job& job : jobs) {
    ids.push_back(next_id_);
    inbox_.push_back({next_id_++, std::move(job)});
  }
  n_accepted_live_ += n;
  counts_.accepted += static_cast<uint64_t>(n);
  wake_.notify_one();
  return ids;
}

void Service::cancel(uint64_t id) {
  const std::lock_guard lock(mutex_);
  to_cancel_.push_back(id);
  wake_.notify_one();
}

void Service::stop(Stop how) {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  stop_now_ |= how == Stop::kCancel;
  wake_.notify_one();
}

void Service::join() {
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

ServiceStats Service::stats() const {
  const std::lock_guard lock(mutex_);
  ServiceStats stats = counts_;
  stats.running = std::min(n_accepted_live_, options_.n_sequences);
  stats.queued = n_accepted_live_ - stats.running;
  return stats;
}

/// About the time until one of those that wait is taken up. The caller holds the mutex.
int Service::retry_after() const {
  return std::clamp(static_cast<int>(std::ceil(seconds_per_request_)), 1, kLongestRetry);
}

void Service::run() {
  while (true) {
    Commands commands = wait_for_commands();
    if (commands.done) return;
    for (Pending& pending : commands.jobs) take(std::move(pending));
    for (const uint64_t id : commands.cancelled) {
      if (const auto found = engine_id_.find(id); found != engine_id_.end())
        end(found->second, cancelled());
    }
    if (commands.end_all) end_all(stopped());
    if (!live_.empty()) step();
  }
}

/// Returns at once while requests are under way; sleeps until there is something to do else.
Service::Commands Service::wait_for_commands() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock,
             [&] { return !live_.empty() || !inbox_.empty() || !to_cancel_.empty() || stopping_; });
  Commands commands{.jobs = std::exchange(inbox_, {}),
                    .cancelled = std::exchange(to_cancel_, {}),
                    .end_all = stop_now_};
  commands.done = stopping_ && live_.empty() && commands.jobs.empty();
  return commands;
}

void Service::take(Pending pending) {
  auto submitted = engine_->submit(std::move(pending.job.request));
  if (!submitted) {
    {
      const std::lock_guard lock(mutex_);
      --n_accepted_live_;
    }
    pending.job.sink({.finish = FinishReason::kError, .error = std::move(submitted).error()});
    return;
  }
  live_.emplace(*submitted, Live{pending.id, std::move(pending.job.sink)});
  engine_id_.emplace(pending.id, *submitted);
}

void Service::step() {
  StepReport report{.n_requests = std::min(static_cast<int>(live_.size()), options_.n_sequences)};
  const auto start = env_.now();
  Result<std::vector<Event>> events;
  try {
    events = engine_->step();
  } catch (const std::exception& error) {  // out of memory, a thread that cannot be started
    events = failed(fmt::format("the step failed: {}", error.what()));
  }
  if (!events) {
    end_all(events.error());
    return;
  }
  report.seconds = std::chrono::duration<double>(env_.now() - start).count();
  for (const Event& event : *events) report.n_tokens += event.error ? 0 : 1;
  const auto cache = engine_->cache_stats();
  {
    const std::lock_guard lock(mutex_);
    counts_.tokens += static_cast<uint64_t>(report.n_tokens);
    counts_.cache_tokens = cache.tokens;
    counts_.cache_bytes = cache.bytes;
    counts_.cache_evicted_bytes = cache.evicted_bytes;
    counts_.parked = engine_->n_parked();
  }
  // Before the events: whoever saw an answer end finds its steps counted.
  if (options_.on_step) options_.on_step(report);
  for (const Event& event : *events) deliver(event);
}

void Service::deliver(const Event& event) {
  const auto found = live_.find(event.request);
  if (found == live_.end()) return;  // its sink ended it earlier in this step
  if (event.finish == FinishReason::kNone) {
    if (found->second.sink(event)) return;
    engine_->cancel(event.request);
    forget(event.request);
    return;
  }
  // Counted as ended before the sink tells anybody: who has the answer has the place, too.
  const Sink sink = std::move(found->second.sink);
  forget(event.request);
  sink(event);
}

void Service::end(uint64_t engine_id, Error error) {
  engine_->cancel(engine_id);
  const auto found = live_.find(engine_id);
  Sink sink = std::move(found->second.sink);
  forget(engine_id);
  sink({.request = engine_id, .finish = FinishReason::kError, .error = std::move(error)});
}

void Service::end_all(const Error& error) {
  while (!live_.empty()) end(live_.begin()->first, error);
}

void Service::forget(uint64_t engine_id) {
  const auto found = live_.find(engine_id);
  engine_id_.erase(found->second.id);
  live_.erase(found);
  const std::lock_guard lock(mutex_);
  --n_accepted_live_;
  const auto now = env_.now();
  const double seconds = std::chrono::duration<double>(now - last_end_).count();
  last_end_ = now;
  seconds_per_request_ += kSmoothing * (seconds - seconds_per_request_);
}

}  // namespace ondol::engine
