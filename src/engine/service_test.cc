#include "engine/service.h"

#include <gtest/gtest.h>

#include <future>
#include <map>

#include "engine/testing.h"
#include "support/support.h"

namespace ondol::engine {
namespace {

using test::greedy;

std::unique_ptr<Engine> open(int n_sequences, int n_ctx = 128) {
  return test::open_engine(ondol::test::data_path("models/llama.gguf"),
                           {.n_ctx = n_ctx, .threads = 1, .n_sequences = n_sequences});
}

/// Collects the events of one request; wait() returns when it has ended.
class Collector {
 public:
  Sink sink(size_t most = SIZE_MAX) {
    return [this, most](const Event& event) {
      const std::lock_guard lock(mutex_);
      if (event.error) {
        error_ = event.error;
      } else {
        tokens_.push_back(event.sample.token);
      }
      started_.notify_all();
      if (event.finish != FinishReason::kNone) ++ends_;
      const bool goes_on = event.finish == FinishReason::kNone && tokens_.size() < most;
      if (!goes_on) ended_.notify_all();
      over_ |= !goes_on;
      return goes_on;
    };
  }
  void wait_for_start() {
    std::unique_lock lock(mutex_);
    started_.wait(lock, [&] { return !tokens_.empty() || over_; });
  }
  std::vector<int32_t> wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return over_; });
    return tokens_;
  }
  std::optional<Error> error() {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  int ends() {
    const std::lock_guard lock(mutex_);
    return ends_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable started_, ended_;
  std::vector<int32_t> tokens_;
  std::optional<Error> error_;
  bool over_ = false;
  int ends_ = 0;
};

uint64_t submit(Service& service, Request request, Sink sink) {
  std::vector<Job> jobs;
  jobs.push_back({std::move(request), std::move(sink)});
  const auto ids = service.submit(std::move(jobs));
  EXPECT_TRUE(ids) << ids.error().message;
  return ids->front();
}

TEST(Service, AnswersFromManyThreadsAreThoseOfTheEngine) {
  std::map<int, std::vector<int32_t>> expected;
  for (int i = 0; i < 6; ++i) {
    const auto engine = open(1);
    ASSERT_TRUE(engine->submit(greedy({i + 1, 5}, 10)));
    while (!engine->idle()) {
      const auto events = engine->step();
      ASSERT_TRUE(events) << events.error().message;
      for (const Event& event : *events) expected[i].push_back(event.sample.token);
    }
  }
  Service service(Env::real(), open(3), {.n_sequences = 3});
  std::vector<Collector> answers(6);
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] { submit(service, greedy({i + 1, 5}, 10), answers[i].sink()); });
  }
  for (auto& thread : threads) thread.join();
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(answers[i].wait(), expected[i]);
    EXPECT_FALSE(answers[i].error());
    EXPECT_EQ(answers[i].ends(), 1);
  }
  const auto stats = service.stats();
  EXPECT_EQ(stats.tokens, 60u);
  EXPECT_EQ(stats.accepted, 6u);
  EXPECT_EQ(stats.queued + stats.running, 0);
}

TEST(Service, AFullQueueIsRefusedWithATime) {
  Service service(Env::real(), open(1), {.n_sequences = 1, .max_queue = 1});
  Collector first, second, third;
  const auto a = submit(service, greedy({1}, 100), first.sink());
  submit(service, greedy({2}, 100), second.sink());
  std::vector<Job> more;
  more.push_back({greedy({3}, 1), third.sink()});
  const auto refused = service.submit(std::move(more));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Refusal::Kind::kFull);
  EXPECT_GE(refused.error().retry_after, 1);
  EXPECT_LE(refused.error().retry_after, 60);
  EXPECT_EQ(service.stats().refused, 1u);
  service.cancel(a);
  first.wait();
  submit(service, greedy({3}, 1), third.sink());
  EXPECT_EQ(third.wait().size(), 1u);
}

TEST(Service, MoreAtOnceThanThereIsRoomForIsRefusedForGood) {
  Service service(Env::real(), open(1), {.n_sequences = 1, .max_queue = 1});
  std::vector<Job> jobs;
  for (int i = 0; i < 3; ++i) jobs.push_back({greedy({1}, 1), [](const Event&) { return true; }});
  const auto refused = service.submit(std::move(jobs));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Refusal::Kind::kTooMany);
  EXPECT_EQ(service.stats().accepted, 0u);
}

TEST(Service, CancelEndsARequestWithOneEvent) {
  Service service(Env::real(), open(1, 4096), {.n_sequences = 1});
  Collector running, waiting;
  const auto a = submit(service, greedy({1}, 4000), running.sink());
  const auto b = submit(service, greedy({2}, 4000), waiting.sink());
  running.wait_for_start();
  service.cancel(b);
  service.cancel(a);
  service.cancel(a);
  service.cancel(12345);
  EXPECT_LT(running.wait().size(), 4000u);
  EXPECT_TRUE(waiting.wait().empty());
  for (Collector* collector : {&running, &waiting}) {
    ASSERT_TRUE(collector->error());
    EXPECT_EQ(collector->error()->kind, ErrorKind::kInterrupted);
    EXPECT_EQ(collector->ends(), 1);
  }
  EXPECT_EQ(service.stats().queued + service.stats().running, 0);
}

TEST(Service, ASinkEndsItsRequest) {
  Service service(Env::real(), open(1), {.n_sequences = 1});
  Collector short_one, next;
  submit(service, greedy({1}, 100), short_one.sink(4));
  submit(service, greedy({2}, 3), next.sink());
  EXPECT_EQ(next.wait().size(), 3u);
  EXPECT_EQ(short_one.wait().size(), 4u);
  EXPECT_EQ(short_one.ends(), 0);
}

TEST(Service, WhatTheEngineRefusesIsAnEvent) {
  Service service(Env::real(), open(1, 16), {.n_sequences = 1});
  Collector collector;
  submit(service, greedy(std::vector<int32_t>(17, 1), 4), collector.sink());
  EXPECT_TRUE(collector.wait().empty());
  ASSERT_TRUE(collector.error());
  EXPECT_EQ(collector.error()->kind, ErrorKind::kUsage);
  EXPECT_EQ(service.stats().queued + service.stats().running, 0);
}

TEST(Service, StopFinishesOrCancels) {
  for (const auto how : {Service::Stop::kFinish, Service::Stop::kCancel}) {
    Service service(Env::real(), open(1, 4096), {.n_sequences = 1});
    const size_t n = how == Service::Stop::kFinish ? 30 : 4000;
    Collector first, second;
    submit(service, greedy({1}, static_cast<int>(n)), first.sink());
    submit(service, greedy({2}, static_cast<int>(n)), second.sink());
    service.stop(how);
    std::vector<Job> more;
    more.push_back({greedy({3}, 1), [](const Event&) { return true; }});
    const auto refused = service.submit(std::move(more));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, Refusal::Kind::kStopping);
    service.join();
    EXPECT_EQ(first.wait().size() == n, how == Service::Stop::kFinish);
    EXPECT_EQ(second.wait().size() == n, how == Service::Stop::kFinish);
    EXPECT_EQ(first.ends() + second.ends(), 2);
  }
}

TEST(Service, StepsAreReported) {
  std::atomic<int> tokens = 0, steps = 0;
  Service service(Env::real(), open(2),
                  {.n_sequences = 2, .on_step = [&](const StepReport& report) {
                     ++steps;
                     tokens += report.n_tokens;
                     EXPECT_GE(report.seconds, 0);
                     EXPECT_GE(report.n_requests, 1);
                   }});
  Collector one, two;
  submit(service, greedy({1}, 5), one.sink());
  submit(service, greedy({2}, 7), two.sink());
  one.wait();
  two.wait();
  EXPECT_EQ(tokens, 12);
  EXPECT_GE(steps, 7);
}

}  // namespace
}  // namespace ondol::engine
