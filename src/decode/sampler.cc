#include "decode/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "decode/philox.h"

namespace ondol::decode {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr double kBan = -100;
constexpr double kForce = 100;
/// exp of this is 2^-64.
constexpr double kNegligible = -44.3614195558365;

/// The largest logit and the smallest id that has it; {-1, -inf} if no logit is above minus
/// infinity.
std::pair<int32_t, float> largest(std::span<const float> logits) {
  // Independent lanes, so that the compiler can use vectors; NaN never compares greater.
  constexpr size_t kLanes = 16;
  std::array<float, kLanes> lanes;
  lanes.fill(kNever);
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j)
      lanes[j] = logits[i + j] > lanes[j] ? logits[i + j] : lanes[j];
  }
  float top = kNever;
  for (const float x : lanes) top = x > top ? x : top;
  for (; i < logits.size(); ++i) top = logits[i] > top ? logits[i] : top;
  if (top == kNever) return {-1, kNever};
  return {static_cast<int32_t>(std::ranges::find(logits, top) - logits.begin()), top};
}

struct Scored {
  int32_t token;
  float logit;
};

/// The k largest logits, best first (equal ones by id). Looks at each logit once and sorts no more
/// than k.
std::vector<Scored> best(std::span<const float> logits, size_t k) {
  const auto better = [](const Scored& a, const Scored& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
  };
  std::vector<Scored> kept;
  k = std::min(k, logits.size());
  if (k == 0) return kept;
  const size_t room = std::max<size_t>(2 * k, 64);
  kept.reserve(std::min(room, logits.size()));
  const auto cut = [&] {
    std::ranges::nth_element(kept, kept.begin() + static_cast<ptrdiff_t>(k) - 1, better);
    kept.resize(k);
  };
  float threshold = kNever;
  for (size_t i = 0; i < logits.size(); ++i) {
    // As ids rise, a later token that only equals the k-th best ranks behind it.
    if (!(logits[i] > threshold)) continue;
    kept.push_back({static_cast<int32_t>(i), logits[i]});
    if (kept.size() == room) {
      cut();
      threshold = kept[k - 1].logit;
    }
  }
  if (kept.size() > k) cut();
  std::ranges::sort(kept, better);
  return kept;
}

/// Reorders `items` so that the shortest run of best ones whose weights reach `goal` comes first,
/// and drops the rest. Sorts in growing pieces: usually a few tokens of a large vocabulary are
/// enough. Returns the weight kept.
template <class T, class Better>
double keep_until(std::vector<T>& items, double goal, Better better) {
  double sum = 0;
  size_t done = 0;
  size_t piece = 64;
  while (done < items.size()) {
    const size_t end = std::min(items.size(), done + piece);
    const auto first = items.begin() + static_cast<ptrdiff_t>(done);
    const auto last = items.begin() + static_cast<ptrdiff_t>(end);
    if (end < items.size()) std::nth_element(first, last - 1, items.end(), better);
    std::sort(first, last, better);
    for (; done < end; ++done) {
      sum += items[done].weight;
      if (sum >= goal) {
        items.resize(done + 1);
        return sum;
      }
    }
    piece *= 4;
  }
  return sum;
}

std::unexpected<Error> nothing_to_choose() {
  return failed(
      "no token can be chosen: every logit is minus infinity, not a number or banned; check "
      "logit_bias and the model "
      "file");
}

uint64_t entropy() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

/// log of the sum of exp over the whole vocabulary, passing over NaN.
double log_sum_exp(std::span<const float> logits, float top) {
  double sum = 0;
  for (const float x : logits) {
    if (x > kNever) sum += std::exp(static_cast<double>(x) - static_cast<double>(top));
  }
  return static_cast<double>(top) + std::log(sum);
}

/// Adds the model's own probabilities to `sample`.
void report(std::span<const float> logits, int n_best, Sample& sample) {
  const float top = largest(logits).second;
  if (std::isinf(top)) {
    // The tokens at plus infinity share everything. (At minus infinity nothing can be sampled at
    // all.)
    const auto n = static_cast<double>(std::ranges::count(logits, top));
    const double minus_infinity = -std::numeric_limits<double>::infinity();
    const auto logprob = [&](float x) { return x == top ? -std::log(n) : minus_infinity; };
    sample.logprob = logprob(logits[static_cast<size_t>(sample.token)]);
    for (const Scored& one : best(logits, static_cast<size_t>(n_best))) {
      sample.alternatives.push_back({one.token, logprob(one.logit)});
    }
    return;
  }
  const double total = log_sum_exp(logits, top);
  sample.logprob = static_cast<double>(logits[static_cast<size_t>(sample.token)]) - total;
  for (const Scored& one : best(logits, static_cast<size_t>(n_best))) {
    sample.alternatives.push_back({one.token, static_cast<double>(one.logit) - total});
  }
}

}  // namespace

Result<void> SamplingParams::validate() const {
  struct Range {
    const char* name;
    double value, low, high;
    const char* allowed;
  };
  const double most = std::numeric_limits<double>::max();
  const Range ranges[] = {
      {"temperature", temperature, 0, most, "0 or more"},
      {"top_k", static_cast<double>(top_k), -1, most, "1 or more, or 0 for off"},
      {"top_p", top_p, 0, 1, "from 0 to 1"},
      {"min_p", min_p, 0, 1, "from 0 to 1"},
      {"typical_p", typical_p, 0, 1, "from 0 to 1"},
      {"repetition_penalty", repetition_penalty, 1e-3, 1e3, "from 0.001 to 1000"},
      {"presence_penalty", presence_penalty, -2, 2, "from -2 to 2"},
      {"frequency_penalty", frequency_penalty, -2, 2, "from -2 to 2"},
      {"penalty_last_n", static_cast<double>(penalty_last_n), -1, most, "0 or more, or -1 for all"},
      {"n_logprobs", static_cast<double>(n_logprobs), -1, kMaxLogprobs,
       "from 0 to 1000, or -1 for none"},
  };
  for (const Range& range : ranges) {
    if (!(range.value >= range.low && range.value <= range.high)) {
      return usage_error(
          fmt::format("{} is {}; it must be {}", range.name, range.value, range.allowed));
    }
  }
  for (const auto& [token, bias] : logit_bias) {
    if (token < 0)
      return usage_error(fmt::format("logit_bias names token {}; ids start at 0", token));
    if (!(bias >= kBan && bias <= kForce)) {
      return usage_error(
          fmt::format("logit_bias of token {} is {}; it must be from -100 to 100", token, bias));
    }
  }
  return {};
}

Result<Sampler> Sampler::make(SamplingParams params, int32_t n_vocab) {
  assert(n_vocab > 0);
  if (auto valid = params.validate(); !valid) return propagate(std::move(valid));
  if (!params.logit_bias.empty() && params.logit_bias.rbegin()->first >= n_vocab) {
    return usage_error(fmt::format("logit_bias names token {}; the model has tokens 0 to {}",
                                   params.logit_bias.rbegin()->first, n_vocab - 1));
  }
  const uint64_t seed = params.seed ? *params.seed : entropy();
  return Sampler(std::move(params), n_vocab, seed);
}

Sampler::Sampler(SamplingParams params, int32_t n_vocab, uint64_t seed)
    : params_(std::move(params)), n_vocab_(n_vocab), seed_(seed) {
  for (const auto& entry : params_.logit_bias) forced_ |= entry.second == kForce;
}

bool Sampler::penalises() const {
  return params_.penalty_last_n != 0 &&
         (params_.repetition_penalty != 1 || params_.presence_penalty != 0 ||
          params_.frequency_penalty != 0);
}

void Sampler::apply_bias() {
  if (forced_) {
    std::vector<float> all(adjusted_.size(), kNever);
    all.swap(adjusted_);
    for (const auto& [token, bias] : params_.logit_bias) {
      const auto i = static_cast<size_t>(token);
      if (bias == kForce) adjusted_[i] = all[i];
    }
    return;
  }
  for (const auto& [token, bias] : params_.logit_bias) {
    float& logit = adjusted_[static_cast<size_t>(token)];
    logit = bias == kBan ? kNever : static_cast<float>(static_cast<double>(logit) + bias);
  }
}

void Sampler::apply_penalties(std::span<const int32_t> history) {
  if (params_.penalty_last_n >= 0 && history.size() > static_cast<size_t>(params_.penalty_last_n)) {
    history = history.last(static_cast<size_t>(params_.penalty_last_n));
  }
  const auto known = [&](int32_t token) { return token >= 0 && token < n_vocab_; };
  counts_.resize(static_cast<size_t>(n_vocab_), 0);
  for (const int32_t token : history) {
    if (known(token)) ++counts_[static_cast<size_t>(token)];
  }
  for (const int32_t token : history) {
    if (!known(token)) continue;
    const uint32_t count = std::exchange(counts_[static_cast<size_t>(token)], 0);
    if (count == 0) continue;  // seen before
    float& logit = adjusted_[static_cast<size_t>(token)];
    if (!std::isfinite(logit)) continue;
    // Dividing a negative value would make the token more likely.
    const double value = static_cast<double>(logit);
    const double repeated =
        value > 0 ? value / params_.repetition_penalty : value * params_.repetition_penalty;
    logit =
        static_cast<float>(repeated - params_.presence_penalty - params_.frequency_penalty * count);
  }
}

std::span<const float> Sampler::adjusted(std::span<const float> logits,
                                         std::span<const int32_t> history) {
  assert(logits.size() == static_cast<size_t>(n_vocab_));
  const bool penalise = penalises() && !history.empty();
  if (params_.logit_bias.empty() && !penalise) return logits;
  adjusted_.assign(logits.begin(), logits.end());
  if (!params_.logit_bias.empty()) apply_bias();
  if (penalise) apply_penalties(history);
  return adjusted_;
}

double Sampler::weigh(std::span<const float> logits) {
  candidates_.clear();
  const float top = largest(logits).second;
  if (top == kNever) return 0;
  // If min-p is the only filter to come, what it would drop need not be weighed (with room for
  // rounding).
  const bool only_min_p = params_.min_p > 0 && params_.typical_p == 1 && params_.top_p == 1;
  const double least =
      only_min_p ? std::max(kNegligible, std::log(params_.min_p) - 1e-9) : kNegligible;
  double total = 0;
  const auto consider = [&](int32_t token, float logit) {
    // Infinity minus infinity is no number: the tokens at plus infinity weigh the same, all others
    // nothing.
    const double x = logit == top ? 0
                                  : (static_cast<double>(logit) - static_cast<double>(top)) /
                                        params_.temperature;
    if (!(x >= least)) return;
    candidates_.push_back({token, logit, std::exp(x)});
    total += candidates_.back().weight;
  };
  if (params_.top_k > 0 && params_.top_k < n_vocab_) {
    for (const Scored& one : best(logits, static_cast<size_t>(params_.top_k)))
      consider(one.token, one.logit);
  } else {
    for (size_t i = 0; i < logits.size(); ++i) consider(static_cast<int32_t>(i), logits[i]);
  }
  return total;
}

double Sampler::keep_typical(double total) {
  struct Typical {
    double surprise;  ///< distance of -log p from the entropy
    double weight;
    Candidate candidate;
  };
  const double log_total = std::log(total);
  double entropy_sum = 0;
  for (const Candidate& one : candidates_)
    entropy_sum += one.weight * (log_total - std::log(one.weight));
  const double expected = entropy_sum / total;
  std::vector<Typical> items;
  items.reserve(candidates_.size());
  for (const Candidate& one : candidates_) {
    items.push_back({std::abs(log_total - std::log(one.weight) - expected), one.weight, one});
  }
  const double kept =
      keep_until(items, params_.typical_p * total, [](const Typical& a, const Typical& b) {
        return a.surprise < b.surprise ||
               (a.surprise == b.surprise && a.candidate.token < b.candidate.token);
      });
  candidates_.clear();
  for (const Typical& one : items) candidates_.push_back(one.candidate);
  return kept;
}

double Sampler::keep_top_p(double total) {
  // All candidates lighter than this weigh less than 1 - top_p together, so the heavier ones
  // already reach top_p.
  const double light = (1 - params_.top_p) * total / static_cast<double>(candidates_.size());
  std::erase_if(candidates_, [&](const Candidate& one) { return one.weight < light; });
  return keep_until(candidates_, params_.top_p * total, [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
  });
}

double Sampler::keep_min_p() {
  double heaviest = 0;
  for (const Candidate& one : candidates_) heaviest = std::max(heaviest, one.weight);
  std::erase_if(candidates_,
                [&](const Candidate& one) { return one.weight < params_.min_p * heaviest; });
  double total = 0;
  for (const Candidate& one : candidates_) total += one.weight;
  return total;
}

double Sampler::filter(std::span<const float> logits) {
  if (params_.temperature == 0 || params_.top_k == 1) {
    candidates_.clear();
    const auto [token, logit] = largest(logits);
    if (token < 0) return 0;
    candidates_.push_back({token, logit, 1});
    return 1;
  }
  double total = weigh(logits);
  if (total == 0) return 0;
  if (params_.typical_p < 1) total = keep_typical(total);
  if (params_.top_p < 1) total = keep_top_p(total);
  if (params_.min_p > 0) total = keep_min_p();
  return total;
}

Result<Sample> Sampler::sample(std::span<const float> logits, std::span<const int32_t> history,
                               uint64_t sequence, uint64_t position) {
  const double total = filter(adjusted(logits, history));
  if (total == 0) return nothing_to_choose();
  const double goal = uniform_pair(seed_, sequence, position)[0] * total;
  Sample sample{candidates_.back().token, {}, {}};  // where rounding leaves the sum below the goal
  double sum = 0;
  for (const Candidate& one : candidates_) {
    sum += one.weight;
    if (sum > goal) {
      sample.token = one.token;
      break;
    }
  }
  if (params_.n_logprobs >= 0) report(logits, params_.n_logprobs, sample);
  return sample;
}

Result<std::vector<TokenProbability>> Sampler::distribution(std::span<const float> logits,
                                                            std::span<const int32_t> history) {
  const double total = filter(adjusted(logits, history));
  if (total == 0) return nothing_to_choose();
  std::ranges::sort(candidates_, {}, &Candidate::token);
  std::vector<TokenProbability> out;
  out.reserve(candidates_.size());
  for (const Candidate& one : candidates_) out.push_back({one.token, std::log(one.weight / total)});
  return out;
}

}  // namespace ondol::decode
