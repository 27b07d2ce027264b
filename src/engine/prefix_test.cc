// The prefix cache changes when an answer comes, never what it is.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "engine/engine.h"
#include "support/support.h"

namespace ondol::engine {
namespace {

using Tokens = std::vector<int32_t>;
constexpr int kContext = 160;

/// A toy model's file; "gemma3-40.gguf" is gemma3 with a window of 40 tokens, several pages, where
/// the file's own 8 lie within one.
std::string model_path(const std::string& model) {
  if (model != "gemma3-40.gguf") return test::data_path("models/" + model);
  const std::string path = testing::TempDir() + "ondol-" + std::to_string(getpid()) + "-" + model;
  std::string file = test::read_file(test::data_path("models/gemma3.gguf"));
  const std::string key = "attention.sliding_window";
  const size_t value = file.find(key) + key.size() + 4;  // behind the value's type
  EXPECT_EQ(file[value], 8);
  file[value] = 40;
  std::ofstream(path, std::ios::binary) << file;
  return path;
}

std::unique_ptr<Engine> open(const std::string& model, EngineOptions options) {
  options.n_ctx = options.n_ctx == 0 ? kContext : options.n_ctx;
  options.threads = 1;
  const std::string path = model_path(model);
  auto engine = Engine::open(Env::real(), path, options);
  if (path != test::data_path("models/" + model)) std::filesystem::remove(path);
  EXPECT_TRUE(engine) << engine.error().message;
  return std::move(*engine);
}

struct Answer {
  Tokens tokens;
  std::vector<double> logprobs;
  int cached = -1;
  bool operator==(const Answer& other) const {
    return tokens == other.tokens && logprobs == other.logprobs;
  }
};

using Answers = std::map<uint64_t, Answer>;

Request ask(Tokens prompt, int max_tokens, std::string tenant = "") {
  return {.prompt = std::move(prompt),
          .sampling = {.temperature = 0.9, .seed = 7, .n_logprobs = 0},
          .max_tokens = max_tokens,
          .ignore_end = true,
          .tenant = std::move(tenant)};
}

/// One step; adds what it brought.
void step(Engine& engine, Answers& answers) {
  const auto events = engine.step();
  ASSERT_TRUE(events) << events.error().message;
  for (const Event& event : *events) {
    Answer& answer = answers[event.request];
    EXPECT_TRUE(answer.cached < 0 || answer.cached == event.cached_tokens);
    answer.cached = event.cached_tokens;
    answer.tokens.push_back(event.sample.token);
    answer.logprobs.push_back(event.sample.logprob.value_or(1));
  }
  const auto whole = engine.check_integrity();
  ASSERT_TRUE(whole) << whole.error().message;
}

Answers drain(Engine& engine) {
  Answers answers;
  while (!engine.idle() && !testing::Test::HasFatalFailure()) step(engine, answers);
  return answers;
}

Answer answer_to(Engine& engine, Request request) {
  const auto id = engine.submit(std::move(request));
  EXPECT_TRUE(id) << id.error().message;
  return drain(engine)[*id];
}

Tokens random_tokens(std::mt19937& random, size_t count, int n_vocab = 200) {
  Tokens tokens(count);
  for (auto& token : tokens)
    token = static_cast<int32_t>(3 + random() % static_cast<uint32_t>(n_vocab - 3));
  return tokens;
}

Tokens join(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Tokens head(const Tokens& tokens, size_t n) {
  return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(std::min(n, tokens.size()))};
}

int common(const Tokens& a, const Tokens& b) {
  return static_cast<int>(std::ranges::mismatch(a, b).in1 - a.begin());
}

TEST(PrefixCache, TheNextTurnComputesOnlyWhatIsNew) {
  std::mt19937 random(1);
  const auto engine = open("llama.gguf", {});
  const Tokens first = random_tokens(random, 40);
  const Answer answer = answer_to(*engine, ask(first, 10));
  EXPECT_EQ(answer.cached, 0);
  EXPECT_EQ(answer_to(*engine, ask(first, 10)).cached, 39) << "the last is computed again";
  const Tokens second = join(join(first, answer.tokens), random_tokens(random, 5));
  // The last token of an answer was chosen, but never computed.
  EXPECT_EQ(answer_to(*engine, ask(second, 10)).cached, 49);
  EXPECT_EQ(answer_to(*engine, ask(join(head(first, 21), {5}), 3)).cached, 21);
}

TEST(PrefixCache, TenantsDoNotShare) {
  std::mt19937 random(1);
  const auto engine = open("llama.gguf", {.n_sequences = 2});
  const Tokens text = random_tokens(random, 40);
  answer_to(*engine, ask(text, 4, "a"));
  EXPECT_EQ(answer_to(*engine, ask(text, 4, "b")).cached, 0);
  EXPECT_EQ(answer_to(*engine, ask(text, 4)).cached, 0);
  EXPECT_EQ(answer_to(*engine, ask(text, 4, "a")).cached, 39);
}

TEST(PrefixCache, CanBeLeftOut) {
  std::mt19937 random(1);
  const Tokens text = random_tokens(random, 40);
  const auto off = open("llama.gguf", {.prefix_cache = false});
  answer_to(*off, ask(text, 4));
  EXPECT_EQ(answer_to(*off, ask(text, 4)).cached, 0);
  EXPECT_EQ(off->cache_stats().nodes, 0u);
  const auto on = open("llama.gguf", {});
  Request apart = ask(text, 4);
  apart.use_cache = false;
  answer_to(*on, apart);
  EXPECT_EQ(on->cache_stats().nodes, 0u) << "leaves nothing behind";
  answer_to(*on, ask(text, 4));
  EXPECT_EQ(answer_to(*on, apart).cached, 0);
  on->clear_cache();
  EXPECT_EQ(answer_to(*on, ask(text, 4)).cached, 0);
  ASSERT_TRUE(on->evaluate(text, [](int, kernels::Rows) { return Result<void>(); }));
  EXPECT_EQ(on->cache_stats().nodes, 0u);
}

TEST(PrefixCache, ASecondRequestWaitsForThePrefixUnderWay) {
  std::mt19937 random(1);
  const auto engine = open("llama.gguf", {.n_sequences = 3, .max_rows = 16, .max_chunk = 8});
  const Tokens prefix = random_tokens(random, 64);
  const auto one = engine->submit(ask(join(prefix, {5, 6}), 4)).value();
  const auto two = engine->submit(ask(join(prefix, {7}), 4)).value();
  const auto other = engine->submit(ask(random_tokens(random, 20), 4)).value();
  Answers answers = drain(*engine);
  EXPECT_EQ(answers[one].cached, 0);
  EXPECT_EQ(answers[two].cached, 64);
  EXPECT_EQ(answers[other].tokens.size(), 4u) << "who shares nothing does not wait";
}

TEST(PrefixCache, NobodyWaitsForOneWhoWentAway) {
  std::mt19937 random(1);
  const auto engine = open("llama.gguf", {.n_sequences = 3, .max_rows = 16, .max_chunk = 8});
  const Tokens prefix = random_tokens(random, 64);
  const auto one = engine->submit(ask(join(prefix, {5, 6}), 4)).value();
  const auto two = engine->submit(ask(join(prefix, {7}), 4)).value();
  Answers answers;
  for (int i = 0; i < 3; ++i) step(*engine, answers);
  engine->cancel(one);
  answers = drain(*engine);
  EXPECT_EQ(answers[two].tokens.size(), 4u);
  EXPECT_EQ(answers[two].cached, 24) << "what was computed until then is kept";
}

TEST(PrefixCache, WhatCannotFitAloneIsRefusedWithBothNumbers) {
  const auto whole = open("llama.gguf", {});
  const auto engine = open("llama.gguf", {.n_sequences = 2, .kv_ram = whole->memory().kv / 2});
  EXPECT_LE(engine->memory().kv, whole->memory().kv / 2);
  std::mt19937 random(1);
  const auto refused = engine->submit(ask(random_tokens(random, 81), 4));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  EXPECT_NE(refused.error().message.find("81"), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("80"), std::string::npos) << refused.error().message;
  EXPECT_EQ(answer_to(*engine, ask(random_tokens(random, 75), 100)).tokens.size(), 5u);
  const auto nothing = Engine::open(Env::real(), test::data_path("models/llama.gguf"),
                                    {.n_ctx = 64, .threads = 1, .kv_ram = 10});
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().kind, ErrorKind::kUsage);
}

TEST(PrefixCache, ExplainsWhatWasFound) {
  std::mt19937 random(1);
  const auto engine = open("llama.gguf", {});
  const Tokens text = random_tokens(random, 60);
  const auto explain = [&](Request request) {
    const auto id = engine->submit(std::move(request)).value();
    EXPECT_FALSE(engine->explain(id)) << "not taken up yet";
    drain(*engine);
    return engine->explain(id).value();
  };
  EXPECT_EQ(explain(ask(text, 1, "a")).miss, PrefixMiss::kNeverSeen);
  Explanation found = explain(ask(text, 1, "a"));
  EXPECT_EQ(found.miss, PrefixMiss::kNone);
  EXPECT_EQ(found.n_prompt, 60);
  EXPECT_EQ(found.n_cached, 59);
  found = explain(ask(join(head(text, 20), {5, 6}), 1, "a"));
  EXPECT_EQ(found.miss, PrefixMiss::kNeverSeen);
  EXPECT_EQ(found.n_known, 20) << "the first token that differs";
  EXPECT_EQ(explain(ask(text, 1, "b")).miss, PrefixMiss::kNeverSeen) << "others stay hidden";
  Request apart = ask(text, 1, "a");
  apart.use_cache = false;
  EXPECT_EQ(explain(apart).miss, PrefixMiss::kOff);
  for (int i = 0; i < 3; ++i) answer_to(*engine, ask(random_tokens(random, 150), 1));
  EXPECT_EQ(explain(ask(text, 1, "a")).miss, PrefixMiss::kEvicted);
  EXPECT_FALSE(engine->explain(4711));
}

TEST(PrefixCache, SharedCases) {
  const std::string path = test::shared_path("cases/prefix_reuse.jsonl");
  if (path.empty()) GTEST_SKIP() << test::kNoShared;
  const auto ids = [](const boost::json::value& value) {
    Tokens tokens;
    for (const auto& id : value.as_array()) tokens.push_back(static_cast<int32_t>(id.as_int64()));
    return tokens;
  };
  for (const auto& line : test::read_json_lines(path)) {
    SCOPED_TRACE(std::string(line.at("id").as_string()));
    const auto& in = line.at("input").as_object();
    if (in.contains("situation")) continue;  // the tree compares tokens; it has no hash to force
    const auto name = [&](const char* key) {
      return in.contains(key) ? std::string(in.at(key).as_string()) : std::string();
    };
    const auto engine = open("llama.gguf", {});
    std::vector<Tokens> cached;
    if (in.contains("several")) {
      for (const auto& text : in.at("cached").as_array()) cached.push_back(ids(text));
    } else if (!in.at("cached").as_array().empty()) {
      cached.push_back(ids(in.at("cached")));
    }
    for (const Tokens& text : cached) answer_to(*engine, ask(text, 1, name("cached_under")));
    const Tokens prompt = ids(in.at("new"));
    const auto fresh = answer_to(*open("llama.gguf", {}), ask(prompt, 5, name("new_under")));
    const auto answer = answer_to(*engine, ask(prompt, 5, name("new_under")));
    const auto& expected = line.at("expected").as_object();
    EXPECT_EQ(answer.cached, expected.at("reused_tokens").as_int64());
    EXPECT_EQ(static_cast<int64_t>(prompt.size()) - answer.cached,
              expected.at("computed_tokens").as_int64());
    EXPECT_EQ(answer, fresh);
  }
}

/// A request and what a plain engine answers to it.
struct Turn {
  Request request;
  Answer answer;
};

/// Conversations of two tenants over common system prompts: turns, edits, branches, repetitions.
std::vector<Turn> conversations(const std::string& model, std::mt19937& random, int n_turns) {
  const auto plain = open(model, {.prefix_cache = false});
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  std::vector<Tokens> systems;
  for (int i = 0; i < 3; ++i) systems.push_back(random_tokens(random, 20 + below(40)));
  std::vector<Turn> turns;
  for (int i = 0; i < n_turns; ++i) {
    const size_t kind = turns.empty() ? 0 : below(10);
    const Turn* before =
        turns.empty() ? nullptr : &turns[turns.size() - 1 - below(turns.size()) / 2];
    Tokens prompt;
    std::string tenant = below(2) == 0 ? "a" : "b";
    if (kind < 2) {
      prompt = join(systems[below(3)], random_tokens(random, 1 + below(30)));
    } else {
      tenant = before->request.tenant;
      prompt = join(before->request.prompt, before->answer.tokens);
      if (kind < 4) prompt = head(prompt, 1 + below(prompt.size()));
      if (kind == 4) prompt = before->request.prompt;
      if (kind != 4) prompt = join(prompt, random_tokens(random, 1 + below(12)));
    }
    Request request = ask(head(prompt, kContext - 30), 1 + static_cast<int>(below(20)), tenant);
    request.sampling.seed = random();
    request.use_cache = below(20) != 0;
    request.priority = static_cast<int>(below(8)) / 7;
    Answer answer = answer_to(*plain, request);
    turns.push_back({std::move(request), std::move(answer)});
  }
  return turns;
}

/// Sends the turns at random times, some of them twice and then given up, and compares. Returns the
/// tokens that were found in the cache.
int64_t replay(Engine& engine, const std::vector<Turn>& turns, std::mt19937& random) {
  int64_t cached = 0;
  std::map<uint64_t, size_t> owners;
  std::vector<uint64_t> given_up;
  Answers answers;
  for (size_t next = 0; next < turns.size() || !engine.idle();) {
    while (next < turns.size() && random() % 4 == 0) {
      const auto id = engine.submit(turns[next].request);
      EXPECT_TRUE(id) << id.error().message;
      owners[*id] = next++;
      if (random() % 8 == 0) given_up.push_back(engine.submit(turns[next - 1].request).value());
    }
    if (!given_up.empty() && random() % 6 == 0) {
      engine.cancel(given_up.back());
      given_up.pop_back();
    }
    step(engine, answers);
    if (testing::Test::HasFailure()) return cached;
  }
  for (const auto& [id, turn] : owners) {
    SCOPED_TRACE(turn);
    const Request& request = turns[turn].request;
    EXPECT_EQ(answers[id].tokens, turns[turn].answer.tokens);
    EXPECT_EQ(answers[id].logprobs, turns[turn].answer.logprobs);
    cached += answers[id].cached;
    int possible = 0;  // what anybody of the same tenant could have left
    for (const Turn& other : turns) {
      if (other.request.tenant == request.tenant)
        possible = std::max(
            possible, common(join(other.request.prompt, other.answer.tokens), request.prompt));
    }
    EXPECT_LE(answers[id].cached, request.use_cache ? possible : 0);
  }
  return cached;
}

class PrefixExactness : public testing::TestWithParam<const char*> {};

TEST_P(PrefixExactness, ConversationsGetTheSameBitsWhateverIsCachedEvictedOrParked) {
  std::mt19937 random(42);
  const std::string model = GetParam();
  uint64_t parked = 0;
  uint64_t evicted = 0;
  int64_t cached = 0;
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    const auto turns = conversations(model, random, 60);
    const uint64_t one = open(model, {})->memory().kv;
    const auto n_sequences = 1 + static_cast<int>(random() % 6);
    const auto chunk = 1 + static_cast<int>(random() % 60);
    const EngineOptions options{.n_sequences = n_sequences,
                                .max_rows = n_sequences + static_cast<int>(random() % 60),
                                .max_chunk = chunk,
                                .kv_ram = round % 4 == 0 ? 0 : one * (10 + random() % 15) / 10};
    const auto engine = open(model, options);
    cached += replay(*engine, turns, random);
    if (HasFailure()) return;
    parked += engine->n_parked();
    evicted += engine->cache_stats().evicted_pages;
  }
  EXPECT_GT(parked, 0u);
  EXPECT_GT(evicted, 0u);
  EXPECT_GT(cached, 0);
  RecordProperty("parked", std::to_string(parked));
  RecordProperty("evicted_pages", std::to_string(evicted));
  RecordProperty("cached_tokens", std::to_string(cached));
}

INSTANTIATE_TEST_SUITE_P(Models, PrefixExactness,
                         testing::Values("llama.gguf", "qwen3.gguf", "gemma3.gguf",
                                         "gemma3-40.gguf"),
                         [](const auto& model) {
                           const std::string name = model.param;
                           return name == "gemma3-40.gguf" ? "gemma3_40"
                                                           : name.substr(0, name.find('.'));
                         });

}  // namespace
}  // namespace ondol::engine
