#include "decode/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "support/support.h"

namespace ondol::decode {
namespace {

namespace json = boost::json;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Sampler make(const SamplingParams& params, size_t n_vocab) {
  auto sampler = Sampler::make(params, static_cast<int32_t>(n_vocab));
  EXPECT_TRUE(sampler) << sampler.error().message;
  return std::move(*sampler);
}

std::map<int32_t, double> probabilities(Sampler& sampler, std::span<const float> logits,
                                        std::span<const int32_t> history = {}) {
  const auto result = sampler.distribution(logits, history);
  EXPECT_TRUE(result);
  std::map<int32_t, double> out;
  for (const auto& one : *result) out[one.token] = std::exp(one.logprob);
  return out;
}

// ---- the shared cases
// ------------------------------------------------------------------------------------------

struct Case {
  std::vector<float> logits;
  std::vector<int32_t> history;
  SamplingParams params;
  json::object input, expected;

  template <class T>
  T get(const char* key, T fallback) const {
    const auto* value = input.if_contains(key);
    return value == nullptr ? fallback : value->to_number<T>();
  }
};

Case read_case(const json::object& one) {
  Case c;
  c.input = one.at("input").as_object();
  c.expected = one.at("expected").as_object();
  for (const auto& x : c.input.at("logits").as_array()) {
    c.logits.push_back(x.is_string() ? -kInf : x.to_number<float>());
  }
  for (const char* key : {"token_history", "penalised_tokens"}) {
    if (const auto* ids = c.input.if_contains(key))
      c.history = json::value_to<std::vector<int32_t>>(*ids);
  }
  c.params.temperature = c.get("temperature", 1.0);
  c.params.top_k = c.get("top_k", 0);
  c.params.top_p = c.get("top_p", 1.0);
  c.params.min_p = c.get("min_p", 0.0);
  c.params.repetition_penalty = c.get("repeat_penalty", 1.0);
  c.params.presence_penalty = c.get("presence_penalty", 0.0);
  c.params.frequency_penalty = c.get("frequency_penalty", 0.0);
  c.params.penalty_last_n = c.get("repeat_last_n", -1);
  if (c.input.contains("seed")) c.params.seed = c.get("seed", uint64_t{0});
  if (const auto* bias = c.input.if_contains("logit_bias")) {
    for (const auto& [id, value] : bias->as_object()) {
      c.params.logit_bias[std::stoi(std::string(id))] = value.to_number<double>();
    }
  }
  return c;
}

std::vector<int32_t> draw(const Case& c) {
  Sampler sampler = make(c.params, c.logits.size());
  std::vector<int32_t> out;
  for (int i = 0; i < c.get("draws", 1); ++i) {
    out.push_back(sampler.sample(c.logits, c.history, 0, static_cast<uint64_t>(i)).value().token);
  }
  return out;
}

void check_values(const Case& c) {
  Sampler sampler = make(c.params, c.logits.size());
  if (const auto* logits = c.expected.if_contains("logits")) {
    const auto got = sampler.adjusted(c.logits, c.history);
    const auto want = json::value_to<std::vector<double>>(*logits);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5);
  }
  if (const auto* kept = c.expected.if_contains("kept_ids")) {
    std::vector<int32_t> ids;
    for (const auto& entry : probabilities(sampler, c.logits, c.history))
      ids.push_back(entry.first);
    EXPECT_EQ(ids, json::value_to<std::vector<int32_t>>(*kept));
  }
  if (const auto* wanted = c.expected.if_contains("probabilities")) {
    const auto got = probabilities(sampler, c.logits, c.history);
    EXPECT_EQ(got.size(), wanted->as_object().size());
    for (const auto& [id, p] : wanted->as_object()) {
      const auto at = got.find(std::stoi(std::string(id)));
      ASSERT_NE(at, got.end());
      EXPECT_NEAR(at->second, p.to_number<double>(), 1e-5);
    }
  }
}

void check_draws(const Case& c) {
  if (const auto* token = c.expected.if_contains("token")) {
    std::vector<uint64_t> seeds = {0, 1, 99};
    if (const auto* given = c.input.if_contains("seeds"))
      seeds = json::value_to<std::vector<uint64_t>>(*given);
    for (const uint64_t seed : seeds) {
      Case with = c;
      with.params.seed = seed;
      EXPECT_EQ(draw(with).front(), token->to_number<int32_t>());
    }
  }
  if (const auto* equal = c.expected.if_contains("both_runs_equal")) {
    EXPECT_EQ(draw(c) == draw(c), equal->as_bool());
  }
  if (const auto* least = c.expected.if_contains("distinct_tokens_at_least")) {
    const auto tokens = draw(c);
    EXPECT_GE(std::set(tokens.begin(), tokens.end()).size(), least->to_number<size_t>());
  }
  if (const auto* between = c.expected.if_contains("each_token_count_between")) {
    Case with = c;
    with.params.seed = 1;  // without one the case would fail once in a million runs
    const auto tokens = draw(with);
    for (size_t id = 0; id < c.logits.size(); ++id) {
      const auto n = std::ranges::count(tokens, static_cast<int32_t>(id));
      EXPECT_GE(n, between->as_array()[0].to_number<int64_t>());
      EXPECT_LE(n, between->as_array()[1].to_number<int64_t>());
    }
  }
}

TEST(SamplerTest, SharedCases) {
  const std::string path = test::shared_path("cases/sampling.jsonl");
  if (path.empty()) GTEST_SKIP() << test::kNoShared;
  const auto cases = test::read_json_lines(path);
  EXPECT_GE(cases.size(), 38u);
  const std::set<std::string_view> known = {"logits",
                                            "kept_ids",
                                            "probabilities",
                                            "token",
                                            "deterministic",
                                            "both_runs_equal",
                                            "distinct_tokens_at_least",
                                            "each_token_count_between"};
  for (const auto& one : cases) {
    SCOPED_TRACE(std::string(one.at("id").as_string()));
    const Case c = read_case(one);
    for (const auto& entry : c.expected) EXPECT_TRUE(known.contains(entry.key())) << entry.key();
    check_values(c);
    check_draws(c);
  }
}

// ---- beyond them
// -------------------------------------------------------------------------------------------------

std::vector<float> random_logits(size_t n, uint32_t seed, double spread = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, spread);
  std::vector<float> out(n);
  for (float& x : out) x = static_cast<float>(normal(random));
  return out;
}

TEST(SamplerTest, BadParametersAreNamed) {
  const auto message = [](auto change) {
    SamplingParams params;
    change(params);
    const auto sampler = Sampler::make(params, 10);
    EXPECT_FALSE(sampler);
    EXPECT_EQ(sampler.error().kind, ErrorKind::kUsage);
    return sampler.error().message;
  };
  EXPECT_EQ(message([](auto& p) { p.temperature = -1; }),
            "temperature is -1; it must be 0 or more");
  EXPECT_EQ(message([](auto& p) { p.top_p = 1.5; }), "top_p is 1.5; it must be from 0 to 1");
  EXPECT_NE(message([](auto& p) { p.temperature = kNan; }).find("temperature"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.temperature = kInf; }).find("temperature"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.top_k = -2; }).find("top_k"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.repetition_penalty = 0; }).find("repetition_penalty"),
            std::string::npos);
  EXPECT_NE(message([](auto& p) { p.logit_bias[3] = 101; }).find("token 3"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.logit_bias[-1] = 1; }).find("token -1"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.logit_bias[10] = 1; }).find("0 to 9"), std::string::npos);
  EXPECT_NE(message([](auto& p) { p.n_logprobs = 1001; }).find("n_logprobs"), std::string::npos);
}

TEST(SamplerTest, LogitsThatAreNoNumbers) {
  SamplingParams params;
  for (const double temperature : {0.0, 1.0}) {
    params.temperature = temperature;
    Sampler sampler = make(params, 4);
    EXPECT_EQ(sampler.sample(std::vector{kNan, -kInf, 1.f, kNan}, {}, 0, 0).value().token, 2);
    for (const auto& none : {std::vector(4, kNan), std::vector(4, -kInf)}) {
      const auto sample = sampler.sample(none, {}, 0, 0);
      ASSERT_FALSE(sample);
      EXPECT_EQ(sample.error().kind, ErrorKind::kFailed);
      EXPECT_FALSE(sampler.distribution(none, {}));
    }
  }
  params.n_logprobs = 2;
  Sampler sampler = make(params, 4);
  const std::vector logits{kInf, 5.f, kInf, kNan};
  EXPECT_EQ(probabilities(sampler, logits), (std::map<int32_t, double>{{0, 0.5}, {2, 0.5}}));
  const auto sample = sampler.sample(logits, {}, 0, 0);
  EXPECT_NEAR(*sample->logprob, std::log(0.5), 1e-12);
  EXPECT_EQ(sample->alternatives[1].token, 2);
}

TEST(SamplerTest, BanAndForceHoldForAnyLogits) {
  SamplingParams params;
  params.logit_bias = {{0, -100.0}, {2, 100.0}, {3, 100.0}};
  Sampler forced = make(params, 4);
  EXPECT_EQ(probabilities(forced, std::vector{900.f, 900.f, 1.f, 1.f}),
            (std::map<int32_t, double>{{2, 0.5}, {3, 0.5}}));
  params.logit_bias = {{0, -100.0}};
  Sampler banned = make(params, 2);
  EXPECT_EQ(probabilities(banned, std::vector{900.f, 1.f}), (std::map<int32_t, double>{{1, 1.0}}));
  Sampler all = make(params, 1);
  EXPECT_FALSE(all.sample(std::vector{1.f}, {}, 0, 0));
}

TEST(SamplerTest, HistoryOutsideTheVocabularyIsPassedOver) {
  SamplingParams params;
  params.presence_penalty = 1;
  Sampler sampler = make(params, 2);
  const auto adjusted = sampler.adjusted(std::vector{1.f, 2.f}, std::vector{-1, 1, 2, 1 << 30});
  EXPECT_EQ(std::vector(adjusted.begin(), adjusted.end()), (std::vector{1.f, 1.f}));
}

TEST(SamplerTest, TypicalKeepsWhatIsNearTheEntropy) {
  // p = 0.5, 0.2, 0.2, 0.1: entropy 1.2206; distances of -log p: 0.527, 0.389, 0.389, 1.082.
  const std::vector<float> logits{std::log(0.5f), std::log(0.2f), std::log(0.2f), std::log(0.1f)};
  const auto kept = [&](double typical_p) {
    SamplingParams params;
    params.typical_p = typical_p;
    Sampler sampler = make(params, 4);
    std::vector<int32_t> ids;
    for (const auto& entry : probabilities(sampler, logits)) ids.push_back(entry.first);
    return ids;
  };
  EXPECT_EQ(kept(0.0), (std::vector{1}));
  EXPECT_EQ(kept(0.39), (std::vector{1, 2}));
  EXPECT_EQ(kept(0.6), (std::vector{0, 1, 2}));
  EXPECT_EQ(kept(0.95), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(kept(1.0), (std::vector{0, 1, 2, 3}));
}

/// The same filters by sorting everything, in the order that SamplingParams states.
std::map<int32_t, double> naive(const std::vector<float>& logits, const SamplingParams& params) {
  std::vector<std::pair<double, int32_t>> order;  // (probability, id), best first
  double total = 0;
  const double top = *std::ranges::max_element(logits);
  for (size_t i = 0; i < logits.size(); ++i) {
    order.emplace_back(std::exp((logits[i] - top) / params.temperature), i);
  }
  const auto by = [](auto key) {
    return [=](const auto& a, const auto& b) {
      return std::pair(key(a), a.second) < std::pair(key(b), b.second);
    };
  };
  const auto best_first = by([](const auto& x) { return -x.first; });
  const auto normalise = [&] {
    total = 0;
    for (const auto& x : order) total += x.first;
    for (auto& x : order) x.first /= total;
  };
  const auto cut = [&](double mass) {
    double sum = 0;
    size_t n = 0;
    while (n < order.size() && (n == 0 || sum < mass)) sum += order[n++].first;
    order.resize(n);
    normalise();
  };
  std::ranges::sort(order, best_first);
  if (params.top_k > 0) order.resize(std::min<size_t>(order.size(), params.top_k));
  normalise();
  if (params.typical_p < 1) {
    double entropy = 0;
    for (const auto& x : order) entropy -= x.first * std::log(x.first);
    std::ranges::sort(order,
                      by([&](const auto& x) { return std::abs(-std::log(x.first) - entropy); }));
    cut(params.typical_p);
    std::ranges::sort(order, best_first);
  }
  if (params.top_p < 1) cut(params.top_p);
  if (params.min_p > 0) {
    const double least = params.min_p * order.front().first;
    std::erase_if(order, [&](const auto& x) { return x.first < least; });
    normalise();
  }
  std::map<int32_t, double> out;
  for (const auto& x : order) out[x.second] = x.first;
  return out;
}

TEST(SamplerTest, FiltersAgreeWithSortingEverything) {
  std::mt19937 random(5);
  const auto pick = [&](auto... options) {
    return std::array{options...}[random() % sizeof...(options)];
  };
  for (int round = 0; round < 300; ++round) {
    SamplingParams params;
    params.temperature = pick(0.3, 1.0, 2.0);
    params.top_k = pick(0, 2, 40, 500, 5000);
    params.typical_p = pick(1.0, 0.9, 0.5);
    params.top_p = pick(1.0, 0.95, 0.5);
    params.min_p = pick(0.0, 0.05, 0.3);
    const auto logits =
        random_logits(pick(size_t{1}, size_t{7}, size_t{300}, size_t{3000}), random(), 2);
    Sampler sampler = make(params, logits.size());
    const auto got = probabilities(sampler, logits);
    const auto want = naive(logits, params);
    ASSERT_EQ(got.size(), want.size());
    for (const auto& [id, p] : want) ASSERT_NEAR(got.at(id), p, 1e-9);
  }
}

TEST(SamplerTest, TopKBreaksTiesByIdWithManyEqualLogits) {
  SamplingParams params;
  params.top_k = 3;
  std::vector<float> logits(1000, 1.f);
  logits[500] = 2.f;
  Sampler sampler = make(params, logits.size());
  std::vector<int32_t> ids;
  for (const auto& entry : probabilities(sampler, logits)) ids.push_back(entry.first);
  EXPECT_EQ(ids, (std::vector{0, 1, 500}));
}

TEST(SamplerTest, LogprobsAreOfTheUnmodifiedDistribution) {
  SamplingParams params;
  params.n_logprobs = 3;
  params.temperature = 0.2;
  params.top_k = 2;
  params.logit_bias = {{4, 100.0}};
  Sampler sampler = make(params, 5);
  const auto sample = sampler.sample(std::vector{2.f, 1.f, 0.5f, 0.f, -1.f}, {}, 0, 0);
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->token, 4);
  EXPECT_NEAR(std::exp(*sample->logprob), 0.0280311766, 1e-7);
  ASSERT_EQ(sample->alternatives.size(), 3u);
  EXPECT_EQ(sample->alternatives[0].token, 0);
  EXPECT_NEAR(std::exp(sample->alternatives[0].logprob), 0.563021232, 1e-7);
  EXPECT_EQ(sample->alternatives[2].token, 2);
  params.n_logprobs = -1;
  Sampler silent = make(params, 5);
  EXPECT_FALSE(silent.sample(std::vector{2.f, 1.f, 0.5f, 0.f, -1.f}, {}, 0, 0)->logprob);
}

TEST(SamplerTest, ADrawDependsOnItsOwnPositionOnly) {
  SamplingParams params;
  params.seed = 42;
  const auto logits = random_logits(1000, 1, 1);
  Sampler forward = make(params, logits.size());
  Sampler backward = make(params, logits.size());
  std::vector<int32_t> a, b(200);
  for (size_t i = 0; i < 200; ++i) a.push_back(forward.sample(logits, {}, 3, i)->token);
  for (size_t i = 200; i-- > 0;) {
    b[i] = backward.sample(logits, {}, 3, i)->token;
    (void)backward.sample(logits, {}, 4, i);  // another sequence in between
  }
  EXPECT_EQ(a, b);
  std::vector<int32_t> other;
  for (size_t i = 0; i < 200; ++i) other.push_back(forward.sample(logits, {}, 4, i)->token);
  EXPECT_NE(a, other);
}

/// Pearson's statistic of `draws` samples against the stated distribution; tokens expected fewer
/// than five times are pooled.
double chi_square(Sampler& sampler, const std::vector<float>& logits, int draws, int& degrees) {
  std::map<int32_t, int> counts;
  for (int i = 0; i < draws; ++i)
    ++counts[sampler.sample(logits, {}, 0, static_cast<uint64_t>(i))->token];
  double statistic = 0, rare = 0, rare_seen = 0;
  degrees = -1;
  const auto add = [&](double expected, double seen) {
    statistic += (seen - expected) * (seen - expected) / expected;
    ++degrees;
  };
  int seen_total = 0;
  for (const auto& [id, p] : probabilities(sampler, logits)) {
    seen_total += counts[id];
    if (p * draws < 5) {
      rare += p * draws;
      rare_seen += counts[id];
    } else {
      add(p * draws, counts[id]);
    }
  }
  if (rare > 0) add(rare, rare_seen);
  EXPECT_EQ(seen_total, draws) << "a token outside the distribution was drawn";
  return statistic;
}

TEST(SamplerTest, DrawsFollowTheDistribution) {
  SamplingParams plain, filtered;
  filtered.temperature = 0.7;
  filtered.top_k = 30;
  filtered.top_p = 0.9;
  filtered.min_p = 0.01;
  for (SamplingParams params : {plain, filtered}) {
    for (const uint64_t seed : {1, 2, 3}) {
      params.seed = seed;
      const auto logits = random_logits(60, static_cast<uint32_t>(seed), 1.5);
      Sampler sampler = make(params, logits.size());
      int degrees = 0;
      const double statistic = chi_square(sampler, logits, 20000, degrees);
      ASSERT_GE(degrees, 5);
      // Four standard deviations of the normal approximation (Wilson and Hilferty) to chi-square.
      const double spread = 2.0 / (9.0 * degrees);
      EXPECT_LT(std::cbrt(statistic / degrees), 1 - spread + 4 * std::sqrt(spread))
          << "seed " << seed;
    }
  }
}

TEST(SamplerTest, LargeVocabularyMatchesSmallSelections) {
  const auto logits = random_logits(262144, 9);
  SamplingParams params;
  params.top_k = 64;
  params.top_p = 0.9;
  Sampler sampler = make(params, logits.size());
  const auto want = naive(logits, params);
  const auto got = probabilities(sampler, logits);
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [id, p] : want) EXPECT_NEAR(got.at(id), p, 1e-9);
}

}  // namespace
}  // namespace ondol::decode
