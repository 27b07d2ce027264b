// Thread rule: one thread.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "bench/workload.h"

namespace ondol::bench {

/// How a server of OpenAI's API is loaded.
struct LoadOptions {
  std::string url;
  std::string model;  ///< empty: the first that the server lists
  std::string api_key;
  WorkloadOptions work;
  /// Requests per second, at random times (Poisson), whether or not earlier ones are answered
  /// (open loop); 0: see `clients`.
  double rate = 0;
  /// So many clients, each of which waits for its answer before it asks again (closed loop); 0 with
  /// a rate of 0: a recording as it was, else one client.
  int clients = 0;
  /// To measure; 0: 32, or all of a file, or what duration_s leaves time for.
  int requests = 0;
  double duration_s = 0;    ///< start no more after so many seconds; 0: no limit
  int warmup = 0;           ///< requests before, one by one, that are not measured
  double timeout_s = 600;   ///< of one request
  double ttft_limit_s = 0;  ///< of goodput; 0: none
  double tpot_limit_s = 0;
};

/// What became of one request.
struct LoadSample {
  double ttft_s = 0;
  double tpot_s = 0;   ///< 0 where the answer had one token
  double pause_s = 0;  ///< the longest between two texts
  double total_s = 0;
  int prompt = 0;
  int completion = 0;
  int cached = 0;
  double possible = 0;  ///< tokens of the prompt that were sent before
};

struct Percentiles {
  double p50 = 0, p95 = 0, p99 = 0;
};
/// By the nearest rank: the smallest value that as large a share of all is not above. Zeros of
/// nothing.
Percentiles percentiles(std::vector<double> values);

struct LoadReport {
  std::string url, model;
  std::vector<LoadSample> samples;          ///< answered in full, in the order of their ends
  std::map<std::string, int> errors;        ///< by kind
  std::map<std::string, std::string> told;  ///< what the first of each kind said
  double seconds = 0;                       ///< from the first request to the last answer
  int n_sent = 0;
  int most_at_once = 0;
  bool cached_known = false;     ///< the server says what it had cached
  bool prompt_known = false;     ///< the server counts the prompt's tokens
  bool possible_is_low = false;  ///< more text was sent than is remembered
  WordRate rate;

  int64_t prompt_tokens() const;
  int64_t completion_tokens() const;
  int64_t cached_tokens() const;
  double possible_tokens() const;
  /// Answers within both limits, per second.
  double goodput(const LoadOptions& options) const;
};

/// Loads the server and measures. kFailed where it cannot be reached at all; what happens to single
/// requests is in the report. kInterrupted when `stop` returns true. `progress` is called with the
/// number of ended requests.
Result<LoadReport> run_load(Env& env, LoadOptions options, const std::function<void(int)>& progress,
                            const std::function<bool()>& stop);

boost::json::object to_json(const LoadReport& report, const LoadOptions& options);
std::string to_text(const LoadReport& report, const LoadOptions& options);
/// The distributions of TTFT and TPOT as an SVG picture.
std::string to_svg(const LoadReport& report);

}  // namespace ondol::bench
