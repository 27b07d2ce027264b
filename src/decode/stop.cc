#include "decode/stop.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ondol::decode {

Result<StopMatcher> StopMatcher::make(const std::vector<std::string>& stops) {
  if (stops.size() > kMaxStops) {
    return usage_error(
        fmt::format("stop: {} texts given, at most {} are allowed", stops.size(), kMaxStops));
  }
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) {
      return usage_error(fmt::format(
          "stop: text {} is empty; leave it out or give it at least one character", i + 1));
    }
    if (stops[i].size() > kMaxStopBytes) {
      return usage_error(fmt::format("stop: text {} has {} bytes, at most {} are allowed", i + 1,
                                     stops[i].size(), kMaxStopBytes));
    }
  }
  return StopMatcher(stops);
}

StopMatcher::StopMatcher(const std::vector<std::string>& stops) {
  for (const std::string& text : stops) {
    Pattern pattern{text, std::vector<size_t>(text.size() + 1, 0), 0};
    for (size_t i = 1, border = 0; i < text.size(); ++i) {
      while (border > 0 && text[i] != text[border]) border = pattern.border[border];
      if (text[i] == text[border]) ++border;
      pattern.border[i + 1] = border;
    }
    patterns_.push_back(std::move(pattern));
  }
}

void StopMatcher::advance(Pattern& pattern, char c) {
  while (pattern.state > 0 && pattern.text[pattern.state] != c)
    pattern.state = pattern.border[pattern.state];
  if (pattern.text[pattern.state] == c) ++pattern.state;
}

std::string StopMatcher::push(std::string_view piece) {
  if (stopped()) return {};
  for (size_t i = 0; i < piece.size(); ++i) {
    size_t length = 0;
    for (size_t j = 0; j < patterns_.size(); ++j) {
      Pattern& pattern = patterns_[j];
      advance(pattern, piece[i]);
      if (pattern.state == pattern.text.size() && pattern.state > length) {
        length = pattern.state;
        matched_ = static_cast<int>(j);
      }
    }
    if (stopped()) {
      std::string out = std::exchange(held_, {}).append(piece.substr(0, i + 1));
      out.resize(out.size() - length);
      return out;
    }
  }
  size_t hold = 0;
  for (const Pattern& pattern : patterns_) hold = std::max(hold, pattern.state);
  std::string out = std::exchange(held_, {}).append(piece);
  held_ = out.substr(out.size() - hold);
  out.resize(out.size() - hold);
  return out;
}

std::string StopMatcher::finish() {
  for (Pattern& pattern : patterns_) pattern.state = 0;
  return std::exchange(held_, {});
}

std::string_view StopMatcher::matched() const {
  return stopped() ? std::string_view(patterns_[static_cast<size_t>(matched_)].text)
                   : std::string_view();
}

}  // namespace ondol::decode
