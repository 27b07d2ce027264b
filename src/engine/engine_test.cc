#include "engine/engine.h"

#include <gtest/gtest.h>

#include <map>

#include "base/env_forward.h"
#include "engine/testing.h"
#include "support/support.h"

namespace ondol::engine {
namespace {

using test::greedy;

std::unique_ptr<Engine> open(const EngineOptions& options) {
  return test::open_engine(ondol::test::data_path("models/llama.gguf"), options);
}

/// Runs until all is done; the tokens of each request.
std::map<uint64_t, std::vector<int32_t>> drain(Engine& engine) {
  std::map<uint64_t, std::vector<int32_t>> answers;
  while (!engine.idle()) {
    const auto events = engine.step();
    EXPECT_TRUE(events) << events.error().message;
    for (const Event& event : *events) answers[event.request].push_back(event.sample.token);
  }
  return answers;
}

TEST(Engine, AnswersDoNotDependOnWhoElseIsServed) {
  const std::vector<std::vector<int32_t>> prompts = {
      {1, 2, 3}, {40, 41, 42, 43, 44, 45, 46}, {7}, {100, 200, 300}};
  std::vector<std::vector<int32_t>> alone;
  for (const auto& prompt : prompts) {
    const auto engine = open({.n_ctx = 64, .threads = 1});
    ASSERT_TRUE(engine->submit(greedy(prompt, 12)));
    alone.push_back(drain(*engine).begin()->second);
    EXPECT_EQ(alone.back().size(), 12u);
  }
  const auto engine =
      open({.n_ctx = 64, .threads = 2, .n_sequences = 3, .max_rows = 8, .max_chunk = 3});
  std::vector<uint64_t> ids;
  for (const auto& prompt : prompts) ids.push_back(engine->submit(greedy(prompt, 12)).value());
  const auto together = drain(*engine);
  for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(together.at(ids[i]), alone[i]);
}

TEST(Engine, TheContextEndsTheAnswer) {
  const auto engine = open({.n_ctx = 20, .threads = 1});
  ASSERT_TRUE(engine->submit(greedy(std::vector<int32_t>(15, 3), 1000)));
  EXPECT_EQ(drain(*engine).begin()->second.size(), 5u);
  ASSERT_TRUE(engine->submit(greedy(std::vector<int32_t>(19, 3), -1)));
  EXPECT_EQ(drain(*engine).begin()->second.size(), 1u);
}

TEST(Engine, RefusesWhatCannotBeAnswered) {
  const auto engine = open({.n_ctx = 20, .threads = 1});
  const auto too_long = engine->submit(greedy(std::vector<int32_t>(21, 3), 5));
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().kind, ErrorKind::kUsage);
  EXPECT_NE(too_long.error().message.find("21"), std::string::npos);
  EXPECT_NE(too_long.error().message.find("20"), std::string::npos);
  EXPECT_FALSE(engine->submit(greedy(std::vector<int32_t>(20, 3), 5)))
      << "no room for a single token";
  EXPECT_FALSE(engine->submit(greedy({}, 5)));
  EXPECT_FALSE(engine->submit(greedy({1 << 20}, 5)));
  EXPECT_FALSE(engine->submit(greedy({-1}, 5)));
  EXPECT_FALSE(engine->submit(greedy({1}, 0)));
  EXPECT_TRUE(engine->idle());
}

TEST(Engine, TenantsTakeTurnsAndPriorityGoesFirst) {
  const auto engine = open({.n_ctx = 64, .threads = 1});
  std::vector<uint64_t> ids;
  const auto submit = [&](const char* tenant, int priority) {
    Request request = greedy({1, 2, 3}, 3);
    request.tenant = tenant;
    request.priority = priority;
    ids.push_back(engine->submit(std::move(request)).value());
  };
  for (int i = 0; i < 3; ++i) submit("many", 0);
  ASSERT_TRUE(engine->step());  // the first is under way
  submit("few", 0);
  submit("many", 1);
  std::vector<uint64_t> ended;
  while (!engine->idle()) {
    const auto events = engine->step();
    ASSERT_TRUE(events);
    for (const Event& event : *events) {
      if (event.finish != FinishReason::kNone) ended.push_back(event.request);
    }
  }
  EXPECT_EQ(ended, (std::vector<uint64_t>{ids[0], ids[4], ids[3], ids[1], ids[2]}));
}

TEST(Engine, CancelFreesTheRequestAndTheOthersGoOn) {
  const auto engine = open({.n_ctx = 64, .threads = 1, .n_sequences = 2});
  const auto first = engine->submit(greedy({1, 2, 3}, 30)).value();
  const auto second = engine->submit(greedy({4, 5, 6}, 5)).value();
  const auto waiting = engine->submit(greedy({4, 5, 6}, 5)).value();
  ASSERT_TRUE(engine->step());
  engine->cancel(first);
  engine->cancel(waiting);
  const auto answers = drain(*engine);
  EXPECT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers.at(second).size(), 4u);
}

TEST(Engine, WhatDoesNotFitIsSaidBeforeAnythingIsTaken) {
  class SmallEnv : public EnvForward {
   public:
    using EnvForward::EnvForward;
    uint64_t available_memory() override { return 60u << 20; }
  };
  SmallEnv env(Env::real());
  const auto path = ondol::test::data_path("models/llama.gguf");
  const auto refused = Engine::open(env, path, {.n_ctx = 1 << 28, .threads = 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kNoMemory);
  EXPECT_NE(refused.error().message.find("needs"), std::string::npos);
  EXPECT_TRUE(Engine::open(env, path, {.threads = 1})) << "the default context adapts";
}

TEST(Engine, EvaluateGivesEveryPosition) {
  const auto engine = open({.n_ctx = 64, .threads = 1});
  std::vector<int> firsts;
  int rows = 0;
  const std::vector<int32_t> tokens(40, 5);
  ASSERT_TRUE(engine->evaluate(tokens, [&](int first, kernels::Rows logits) -> Result<void> {
    firsts.push_back(first);
    rows += logits.n;
    EXPECT_EQ(logits.width, engine->model().config().n_vocab);
    return {};
  }));
  EXPECT_EQ(firsts.front(), 0);
  EXPECT_EQ(rows, 40);
  EXPECT_FALSE(engine->evaluate(std::vector<int32_t>(65, 5),
                                [](int, kernels::Rows) { return Result<void>(); }));
}

}  // namespace
}  // namespace ondol::engine
