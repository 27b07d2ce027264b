#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/load.h"

namespace ondol::bench {
namespace {

constexpr double kWidth = 360, kHeight = 220, kLeft = 52, kTop = 36;
constexpr size_t kMostPoints = 400;

/// A round number at or above `value`: 1, 2 or 5 times a power of ten.
double round_up(double value) {
  if (value <= 0) return 1;
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (value <= step * power) return step * power;
  }
  return 10 * power;
}

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<' || c == '>' || c == '&' || c == '"') {
      out += fmt::format("&#{};", static_cast<int>(c));
    } else {
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view what) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape(what));
}

/// The share of values that are at most so large, over the values in milliseconds.
std::string panel(double left, std::string_view title, std::vector<double> values) {
  std::ranges::sort(values);
  const double most = round_up(values.empty() ? 1 : values.back() * 1e3);
  const auto x = [&](double ms) { return left + kWidth * ms / most; };
  const auto y = [&](double share) { return kTop + kHeight * (1 - share); };
  std::string out = text_at(left + kWidth / 2, kTop - 12, "middle", title);
  for (int i = 0; i <= 4; ++i) {
    const double share = i / 4.0;
    out += fmt::format(
        "<path d=\"M{:.1f} {:.1f}h{:.1f}M{:.1f} {:.1f}v{:.1f}\" stroke=\"#ddd\" fill=\"none\"/>\n",
        left, y(share), kWidth, x(most * share), kTop, kHeight);
    out += text_at(left - 6, y(share) + 4, "end", fmt::format("{} %", i * 25));
    out +=
        text_at(x(most * share), kTop + kHeight + 16, "middle", fmt::format("{:g}", most * share));
  }
  if (values.empty()) return out + text_at(left + kWidth / 2, y(0.5), "middle", "nothing measured");
  std::string path = fmt::format("M{:.1f} {:.1f}", x(values.front() * 1e3), y(0));
  const size_t step = std::max<size_t>(1, values.size() / kMostPoints);
  for (size_t i = 0; i < values.size(); i += step) {
    const size_t last = std::min(i + step, values.size()) - 1;
    path += fmt::format("H{:.1f}V{:.1f}", x(values[last] * 1e3),
                        y(static_cast<double>(last + 1) / static_cast<double>(values.size())));
  }
  out +=
      fmt::format("<path d=\"{}\" stroke=\"#1f5fa8\" stroke-width=\"2\" fill=\"none\"/>\n", path);
  const Percentiles of = percentiles(values);
  for (const auto& [share, value] : {std::pair{0.5, of.p50}, {0.95, of.p95}, {0.99, of.p99}}) {
    out += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"#c0392b\"><title>p{:g}: {:.1f} "
        "ms</title></circle>\n",
        x(value * 1e3), y(share), share * 100, value * 1e3);
  }
  return out + text_at(left + kWidth / 2, kTop + kHeight + 34, "middle",
                       fmt::format("ms; p50 {:.1f}, p95 {:.1f}, p99 {:.1f}", of.p50 * 1e3,
                                   of.p95 * 1e3, of.p99 * 1e3));
}

}  // namespace

std::string to_svg(const LoadReport& report) {
  std::vector<double> ttft, tpot;
  for (const LoadSample& sample : report.samples) {
    ttft.push_back(sample.ttft_s);
    if (sample.tpot_s > 0) tpot.push_back(sample.tpot_s);
  }
  const double second = kLeft + kWidth + 70;
  const double width = second + kWidth + 20, height = kTop + kHeight + 64;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
      "height=\"{1:g}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"white\"/>\n",
      width, height);
  out += panel(kLeft, "time to the first token", std::move(ttft));
  out += panel(second, "time per token", std::move(tpot));
  out += text_at(width / 2, height - 8, "middle",
                 fmt::format("{} answers of {} in {:.1f} s", report.samples.size(), report.model,
                             report.seconds));
  return out + "</svg>\n";
}

}  // namespace ondol::bench
