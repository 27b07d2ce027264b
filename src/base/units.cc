#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <vector>

namespace ondol {

Result<uint64_t> parse_size(std::string_view text) {
  const auto bad = [&] {
    return usage_error(fmt::format("'{}' is not a size; write it like 512M, 8G or 1.5GiB", text));
  };
  double value = 0;
  const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || !(value >= 0)) return bad();
  std::string unit(rest, text.data() + text.size());
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return std::toupper(c); });
  if (unit.ends_with("IB"))
    unit.resize(unit.size() - 2);
  else if (unit.ends_with('B'))
    unit.pop_back();
  static constexpr std::string_view kUnits = "KMGT";
  double factor = 1;
  if (unit.size() > 1) return bad();
  if (unit.size() == 1) {
    const size_t index = kUnits.find(unit[0]);
    if (index == std::string_view::npos) return bad();
    for (size_t i = 0; i <= index; ++i) factor *= 1024;
  }
  const double bytes = value * factor;
  if (!(bytes < 9.2e18)) return bad();
  return static_cast<uint64_t>(bytes);
}

std::string format_size(uint64_t bytes) {
  static constexpr std::array kNames = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (value /= 1024; value >= 1024 && unit + 1 < kNames.size(); value /= 1024) ++unit;
  return fmt::format("{:.1f} {}", value, kNames[unit]);
}

std::string format_count(uint64_t count) {
  static constexpr std::array kNames = {"K", "M", "B", "T"};
  if (count < 1000) return fmt::format("{}", count);
  double value = static_cast<double>(count);
  size_t unit = 0;
  for (value /= 1000; value >= 1000 && unit + 1 < kNames.size(); value /= 1000) ++unit;
  return fmt::format("{:.1f} {}", value, kNames[unit]);
}

std::string_view nearest_name(std::string_view word, std::span<const std::string_view> candidates) {
  std::string_view best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    // Levenshtein distance, one row at a time.
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 0; i < word.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i + 1;
      for (size_t j = 0; j < candidate.size(); ++j) {
        const size_t change = diagonal + (word[i] == candidate[j] ? 0 : 1);
        diagonal = row[j + 1];
        row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, change});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace ondol
