#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "tokenizer/utf8.h"

namespace ondol::serve {
namespace {

void write_head(std::string& out, std::string_view name, std::string_view help,
                std::string_view type) {
  out += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

template <class T>
void write_value(std::string& out, std::string_view name, std::string_view help, T value,
                 std::string_view type = "gauge") {
  write_head(out, name, help, type);
  out += fmt::format("{} {}\n", name, value);
}

void write_service(std::string& out, const engine::Service& service) {
  const auto stats = service.stats();
  write_value(out, "ondol_queue_length", "Requests that wait.", stats.queued);
  write_value(out, "ondol_running", "Requests under way.", stats.running);
  write_value(out, "ondol_context_tokens", "Tokens that a prompt and its answer may have.",
              service.engine().n_ctx());
  write_value(out, "ondol_cache_tokens", "Computed tokens kept for later requests.",
              stats.cache_tokens);
  write_value(out, "ondol_cache_bytes", "Bytes of their pages.", stats.cache_bytes);
  write_value(out, "ondol_cache_evicted_bytes_total", "Bytes of pages given up for others.",
              stats.cache_evicted_bytes, "counter");
  write_value(out, "ondol_parked_total", "Times that a request had to make room and come back.",
              stats.parked, "counter");
}

/// A label's value with what the format wants escaped.
std::string label(std::string_view value) {
  std::string out;
  for (const char c : tokenizer::replace_ill_formed(value)) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

}  // namespace

std::string_view error_kind(int status) {
  switch (status) {
    case 401:
    case 403:
      return "not_allowed";
    case 404:
      return "not_found";
    case 405:
      return "wrong_method";
    case 408:
      return "timeout";
    case 413:
    case 431:
      return "too_large";
    case 429:
      return "queue_full";
    case 503:
      return "unavailable";
    default:
      return status < 500 ? "bad_request" : "server";
  }
}

void Histogram::observe(double value) {
  const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  ++counts_[static_cast<size_t>(bucket)];
  sum_ += value;
}

void Histogram::write(std::string& out, std::string_view name, std::string_view help) const {
  write_head(out, name, help, "histogram");
  uint64_t so_far = 0;
  for (size_t i = 0; i < bounds_.size(); ++i) {
    so_far += counts_[i];
    out += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", name, bounds_[i], so_far);
  }
  so_far += counts_.back();
  out += fmt::format("{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name, so_far,
                     sum_);
}

Metrics::Metrics()
    : first_token_({0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120}),
      per_token_({0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5}),
      step_({0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}),
      batch_({1, 2, 4, 8, 16, 32, 64, 128}) {}

void Metrics::count_request(std::string_view path, int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[{std::string(path), status}];
}

void Metrics::count_refusal(int status) {
  count_request("other", status);
  count_error(error_kind(status));
}

void Metrics::count_error(std::string_view kind) {
  const std::lock_guard lock(mutex_);
  ++errors_[std::string(kind)];
}

void Metrics::count_tokens(std::string_view client, int prompt, int cached, int completion) {
  const std::lock_guard lock(mutex_);
  Tokens& tokens = tokens_[std::string(client)];
  tokens.prompt += static_cast<uint64_t>(prompt);
  tokens.cached += static_cast<uint64_t>(cached);
  tokens.completion += static_cast<uint64_t>(completion);
}

void Metrics::observe_first_token(double seconds) {
  const std::lock_guard lock(mutex_);
  first_token_.observe(seconds);
}

void Metrics::observe_per_token(double seconds) {
  const std::lock_guard lock(mutex_);
  per_token_.observe(seconds);
}

void Metrics::observe_step(const engine::StepReport& report) {
  const std::lock_guard lock(mutex_);
  step_.observe(report.seconds);
  batch_.observe(report.n_requests);
}

/// The caller holds the mutex.
void Metrics::write_counters(std::string& out) const {
  write_head(out, "ondol_requests_total", "Answers by path and status.", "counter");
  for (const auto& [key, count] : requests_) {
    out += fmt::format("ondol_requests_total{{path=\"{}\",status=\"{}\"}} {}\n", label(key.first),
                       key.second, count);
  }
  write_head(out, "ondol_errors_total", "Errors by kind.", "counter");
  for (const auto& [kind, count] : errors_)
    out += fmt::format("ondol_errors_total{{kind=\"{}\"}} {}\n", label(kind), count);
  const auto write_tokens = [&](std::string_view name, std::string_view help, auto member) {
    write_head(out, name, help, "counter");
    for (const auto& [client, tokens] : tokens_)
      out += fmt::format("{}{{key=\"{}\"}} {}\n", name, label(client), std::invoke(member, tokens));
  };
  write_tokens("ondol_prompt_tokens_total", "Tokens of prompts, cached ones among them.",
               &Tokens::prompt);
  write_tokens("ondol_cached_tokens_total", "Tokens of prompts that were found in the cache.",
               &Tokens::cached);
  write_tokens("ondol_completion_tokens_total", "Tokens of answers.", &Tokens::completion);
}

std::string Metrics::text(const engine::Service* service) const {
  std::string out;
  if (service != nullptr) write_service(out, *service);
  write_value(out, "ondol_ready", "1 when the model is loaded.", service != nullptr ? 1 : 0);
  const std::lock_guard lock(mutex_);
  write_counters(out);
  first_token_.write(out, "ondol_first_token_seconds",
                     "Time from a request to its first token (TTFT).");
  per_token_.write(out, "ondol_per_token_seconds",
                   "Mean time between the tokens of an answer (TPOT).");
  step_.write(out, "ondol_step_seconds", "Time of a forward pass with its sampling.");
  batch_.write(out, "ondol_batch_requests", "Requests in a step.");
  return out;
}

}  // namespace ondol::serve
