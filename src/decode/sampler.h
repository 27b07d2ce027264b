// Thread rule: a Sampler belongs to one sequence and one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace ondol::decode {

/// How the next token is chosen. The defaults change nothing: plain sampling from the model's
/// distribution. Order: logit bias, penalties, temperature, top-k, typical, top-p, min-p; each
/// filter works on what the one before it kept and always keeps at least one token. (A constraint's
/// set of allowed tokens belongs first, where the bias bans tokens.)
struct SamplingParams {
  double temperature = 1.0;         ///< 0: the most probable token
  int top_k = 0;                    ///< 0 or -1: off
  double top_p = 1.0;               ///< 1: off (Holtzman et al., arXiv 1904.09751)
  double min_p = 0.0;               ///< 0: off (Nguyen et al., arXiv 2407.01082)
  double typical_p = 1.0;           ///< 1: off (Meister et al., arXiv 2202.00666)
  double repetition_penalty = 1.0;  ///< 1: off (Keskar et al., arXiv 1909.05858)
  double presence_penalty = 0.0;    ///< taken once from a token that occurred
  double frequency_penalty = 0.0;   ///< taken once for each time it occurred
  int penalty_last_n = -1;       ///< tokens that penalties look back on; -1: all, 0: penalties off
  std::optional<uint64_t> seed;  ///< none: one from the system's entropy, another in every run
  /// Added to a token's logit. -100 bans it for certain; +100 bans every token that has no +100.
  std::map<int32_t, double> logit_bias;
  int n_logprobs = -1;  ///< -1: report no probability; n: the token's own and those of the n best

  static constexpr int kMaxLogprobs = 1000;
  /// Usage error naming the parameter, its value and the allowed range.
  Result<void> validate() const;
};

struct TokenProbability {
  int32_t token = 0;
  double logprob = 0;  ///< natural logarithm
};

struct Sample {
  int32_t token = 0;
  /// Under the model's own distribution (before bias and filters); empty unless n_logprobs >= 0.
  std::optional<double> logprob;
  std::vector<TokenProbability>
      alternatives;  ///< the n_logprobs best of that distribution, best first
};

/// Chooses tokens. The choice is a pure function of logits, history, seed, sequence and position:
/// neither what else is in the batch nor what was sampled before has an influence.
///
/// A logit of minus infinity or NaN has probability zero; those of plus infinity share all of it.
/// Equal logits are ordered by id, the smaller first.
class Sampler {
 public:
  /// Usage error if a parameter is out of range, or a biased token is not in the vocabulary.
  static Result<Sampler> make(SamplingParams params, int32_t n_vocab);

  /// The token for one position.
  /// logits: [n_vocab]; history: the tokens that penalties count, oldest first (ids outside the
  /// vocabulary are passed over); sequence: which of a request's answers this is (never a slot or
  /// batch index, which would tie the outcome to the schedule); position: of the new token in its
  /// sequence. Error (kFailed) if no token can be chosen: every logit is minus infinity or NaN, or
  /// banned.
  Result<Sample> sample(std::span<const float> logits, std::span<const int32_t> history,
                        uint64_t sequence, uint64_t position);

  /// What `sample` draws from: the tokens that may come and the logarithms of their probabilities
  /// (which sum to one), in the order of ids. Probabilities below 2^-64 of the largest are left
  /// out: 53 random bits cannot tell them from zero.
  Result<std::vector<TokenProbability>> distribution(std::span<const float> logits,
                                                     std::span<const int32_t> history);

  /// The logits after bias and penalties, valid until the next call.
  std::span<const float> adjusted(std::span<const float> logits, std::span<const int32_t> history);

  const SamplingParams& params() const { return params_; }
  /// The seed in use, also where none was given: with it the answer can be had again.
  uint64_t seed() const { return seed_; }

 private:
  struct Candidate {
    int32_t token;
    float logit;
    double weight;  ///< probability times an unknown constant
  };

  Sampler(SamplingParams params, int32_t n_vocab, uint64_t seed);
  bool penalises() const;
  void apply_bias();
  void apply_penalties(std::span<const int32_t> history);
  /// Fills candidates_ with what the filters leave; returns the sum of their weights, 0 if there is
  /// nothing.
  double filter(std::span<const float> logits);
  /// Tokens whose weight is not negligible, after temperature and top-k.
  double weigh(std::span<const float> logits);
  double keep_typical(double total);
  double keep_top_p(double total);
  double keep_min_p();

  SamplingParams params_;
  int32_t n_vocab_;
  uint64_t seed_;
  bool forced_ = false;  ///< some bias is +100
  std::vector<float> adjusted_;
  std::vector<uint32_t> counts_;  ///< [n_vocab], all zero between calls
  std::vector<Candidate> candidates_;
};

}  // namespace ondol::decode
