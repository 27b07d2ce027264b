// Thread rule: any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/service.h"

namespace ondol::serve {

/// The kind of error that a status stands for: the values of `ondol_errors_total{kind}`. Besides
/// these there is "client_gone", which has no status.
std::string_view error_kind(int status);

/// Counts of values by size, as Prometheus' histograms have them.
class Histogram {
 public:
  /// Upper bounds of the buckets, rising; one without a bound comes after them.
  explicit Histogram(std::vector<double> bounds)
      : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void observe(double value);
  /// Lines of the text format; `name` and `help` describe the family.
  void write(std::string& out, std::string_view name, std::string_view help) const;

 private:
  std::vector<double> bounds_;
  std::vector<uint64_t> counts_;
  double sum_ = 0;
};

/// What the server counts, in Prometheus' text format (version 0.0.4). Clients are told apart by
/// the name of their API key, never by the key.
class Metrics {
 public:
  Metrics();
  void count_request(std::string_view path, int status);
  /// A request that the HTTP layer answered itself: malformed, too large, too slow, without a key.
  void count_refusal(int status);
  void count_error(std::string_view kind);
  /// Tokens of one answer, when it ends.
  void count_tokens(std::string_view client, int prompt, int cached, int completion);
  void observe_first_token(double seconds);
  /// Mean time between the tokens of one answer.
  void observe_per_token(double seconds);
  void observe_step(const engine::StepReport& report);

  /// Everything, with the service's present state if it is there.
  std::string text(const engine::Service* service) const;

 private:
  struct Tokens {
    uint64_t prompt = 0, cached = 0, completion = 0;
  };
  void write_counters(std::string& out) const;

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, uint64_t> requests_;
  std::map<std::string, uint64_t> errors_;
  std::map<std::string, Tokens> tokens_;
  Histogram first_token_, per_token_, step_, batch_;
};

}  // namespace ondol::serve
