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
/// distribution. Order: logit bias, penalties, temperature, top-k, typical, top-p, min-p.
struct SamplingParams {
  double temperature = 1.0;         ///< 0: the most probable token
  int top_k = 0;                    ///< 0: off
  double top_p = 1.0;               ///< 1: off (Holtzman et al., arXiv 1904.09751)
  double min_p = 0.0;               ///< 0: off (Nguyen et al., arXiv 2407.01082)
  double typical_p = 1.0;           ///< 1: off (Meister et al., arXiv 2202.00666)
  double repetition_penalty = 1.0;  ///< 1: off (Keskar et al., arXiv 1909.05858)
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  int penalty_last_n = -1;  ///< tokens that penalties look back on; -1: all
  uint64_t seed = 0;
  std::map<int32_t, double> logit_bias;
  int n_logprobs = 0;  ///< alternatives to report with each token
  /// Usage error naming the parameter, its value and the allowed range.
  Result<void> validate() const;
};

struct TokenProbability {
  int32_t token = 0;
  double logprob = 0;  ///< natural logarithm
};

struct Sample {
  int32_t token = 0;
  double logprob = 0;  ///< under the model's own distribution (before bias and filters)
  std::vector<TokenProbability>
      alternatives;  ///< the n_logprobs best of that distribution, best first
};

}  // namespace ondol::decode
