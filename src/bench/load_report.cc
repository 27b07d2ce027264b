#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <type_traits>

#include "bench/load.h"

namespace ondol::bench {
namespace {

namespace json = boost::json;

template <class Member>
std::vector<double> column(const LoadReport& report, Member member) {
  std::vector<double> values;
  values.reserve(report.samples.size());
  for (const LoadSample& sample : report.samples) values.push_back(sample.*member);
  return values;
}

/// TPOT of the answers that have one.
std::vector<double> tpot_column(const LoadReport& report) {
  auto values = column(report, &LoadSample::tpot_s);
  std::erase_if(values, [](double value) { return value <= 0; });
  return values;
}

json::object milliseconds_of(const Percentiles& of) {
  return {{"p50", of.p50 * 1e3}, {"p95", of.p95 * 1e3}, {"p99", of.p99 * 1e3}};
}

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string line(std::string_view name, const Percentiles& of) {
  return fmt::format("{:<22}{:10.1f} {:10.1f} {:10.1f}\n", name, of.p50 * 1e3, of.p95 * 1e3,
                     of.p99 * 1e3);
}

/// Of a figure over all requests; whole numbers as int64.
template <class T>
auto sum_of(const std::vector<LoadSample>& samples, T LoadSample::* figure) {
  std::conditional_t<std::is_integral_v<T>, int64_t, T> sum = 0;
  for (const auto& sample : samples) sum += sample.*figure;
  return sum;
}

}  // namespace

Percentiles percentiles(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const auto at = [&](double share) {
    const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[std::clamp<size_t>(rank, 1, values.size()) - 1];
  };
  return {at(0.50), at(0.95), at(0.99)};
}

int64_t LoadReport::prompt_tokens() const { return sum_of(samples, &LoadSample::prompt); }
int64_t LoadReport::completion_tokens() const { return sum_of(samples, &LoadSample::completion); }
int64_t LoadReport::cached_tokens() const { return sum_of(samples, &LoadSample::cached); }
double LoadReport::possible_tokens() const { return sum_of(samples, &LoadSample::possible); }

double LoadReport::goodput(const LoadOptions& options) const {
  const auto good = std::ranges::count_if(samples, [&](const LoadSample& sample) {
    return (options.ttft_limit_s <= 0 || sample.ttft_s <= options.ttft_limit_s) &&
           (options.tpot_limit_s <= 0 || sample.tpot_s <= options.tpot_limit_s);
  });
  return ratio(static_cast<double>(good), seconds);
}

json::object to_json(const LoadReport& report, const LoadOptions& options) {
  const auto prompt = static_cast<double>(report.prompt_tokens());
  const auto cached = static_cast<double>(report.cached_tokens());
  json::object errors;
  for (const auto& [kind, count] : report.errors) errors[kind] = count;
  const auto if_known = [](bool known, json::value value) { return known ? value : json::value(); };
  const bool known = report.cached_known && prompt > 0;
  json::object out{
      {"url", report.url},
      {"model", report.model},
      {"workload", options.work.kind},
      {"requests", report.samples.size()},
      {"errors", std::move(errors)},
      {"seconds", report.seconds},
      {"most_at_once", report.most_at_once},
      {"ttft_ms", milliseconds_of(percentiles(column(report, &LoadSample::ttft_s)))},
      {"tpot_ms", milliseconds_of(percentiles(tpot_column(report)))},
      {"longest_pause_ms", milliseconds_of(percentiles(column(report, &LoadSample::pause_s)))},
      {"total_ms", milliseconds_of(percentiles(column(report, &LoadSample::total_s)))},
      {"requests_per_s", ratio(static_cast<double>(report.samples.size()), report.seconds)},
      {"goodput_per_s", report.goodput(options)},
      {"prompt_tokens", if_known(report.prompt_known, report.prompt_tokens())},
      {"completion_tokens", report.completion_tokens()},
      {"prompt_tps", if_known(report.prompt_known, ratio(prompt, report.seconds))},
      {"completion_tps", ratio(static_cast<double>(report.completion_tokens()), report.seconds)},
      {"cached_tokens", if_known(report.cached_known, report.cached_tokens())},
      {"hit_rate", if_known(known, ratio(cached, prompt))},
      {"possible_hit_rate", if_known(report.prompt_known, ratio(report.possible_tokens(), prompt))},
      {"share_of_possible",
       if_known(known && report.possible_tokens() > 0, ratio(cached, report.possible_tokens()))},
      {"possible_is_low", report.possible_is_low},
      {"tokens_per_word", report.rate.tokens_per_word}};
  json::object told;
  for (const auto& [kind, text] : report.told) told[kind] = text;
  if (!told.empty()) out["first_errors"] = std::move(told);
  return out;
}

std::string to_text(const LoadReport& report, const LoadOptions& options) {
  std::string text = fmt::format(
      "{} ({}): {} answers in {:.2f} s, at most {} at once\n{:<22}{:>10} {:>10} {:>10}\n",
      report.url, report.model, report.samples.size(), report.seconds, report.most_at_once, "ms",
      "p50", "p95", "p99");
  text += line("first token (TTFT)", percentiles(column(report, &LoadSample::ttft_s)));
  text += line("per token (TPOT)", percentiles(tpot_column(report)));
  text += line("longest pause", percentiles(column(report, &LoadSample::pause_s)));
  text += line("whole answer", percentiles(column(report, &LoadSample::total_s)));
  const auto prompt = static_cast<double>(report.prompt_tokens());
  text += fmt::format("tokens/s: {:.1f} written, {:.1f} read; {:.2f} requests/s",
                      ratio(static_cast<double>(report.completion_tokens()), report.seconds),
                      ratio(prompt, report.seconds),
                      ratio(static_cast<double>(report.samples.size()), report.seconds));
  if (options.ttft_limit_s > 0 || options.tpot_limit_s > 0)
    text += fmt::format(", {:.2f} of them within the limits", report.goodput(options));
  text += "\n";
  if (report.cached_known) {
    text += fmt::format(
        "cached: {:.1f} % of the prompts' tokens; {:.1f} % had been sent before{}\n",
        ratio(static_cast<double>(report.cached_tokens()), prompt) * 100,
        ratio(report.possible_tokens(), prompt) * 100, report.possible_is_low ? " (at least)" : "");
  } else {
    text += "cached: the server does not say\n";
  }
  for (const auto& [kind, count] : report.errors) {
    text += fmt::format("{} x {}: {}\n", count, kind,
                        report.told.contains(kind) ? report.told.at(kind) : "");
  }
  return text;
}

}  // namespace ondol::bench
