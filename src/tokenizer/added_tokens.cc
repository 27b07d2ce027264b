#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <numeric>

namespace ondol::tokenizer {
namespace {

uint8_t byte_at(std::string_view text, size_t at) { return static_cast<uint8_t>(text[at]); }

size_t pair_at(std::string_view text, size_t at) {
  return size_t{byte_at(text, at)} << 8 | byte_at(text, at + 1);
}

}  // namespace

AddedTokens::AddedTokens(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::erase_if(entries_, [](const Entry& entry) { return entry.text.empty(); });
  // Sorted by text and then by place, so that of equal texts the first is the one that stays.
  std::vector<size_t> order(entries_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int compared = entries_[a].text.compare(entries_[b].text);
    return compared != 0 ? compared < 0 : a < b;
  });
  std::vector<Entry> sorted;
  sorted.reserve(order.size());
  for (const size_t place : order) sorted.push_back(entries_[place]);
  entries_ = std::move(sorted);
  const auto same = [](const Entry& a, const Entry& b) { return a.text == b.text; };
  entries_.erase(std::unique(entries_.begin(), entries_.end(), same), entries_.end());
  for (const Entry& entry : entries_) {
    first_.set(byte_at(entry.text, 0));
    if (entry.text.size() > 1) {
      first_two_.set(pair_at(entry.text, 0));
    } else {
      for (size_t second = 0; second < 256; ++second)
        first_two_.set(size_t{byte_at(entry.text, 0)} << 8 | second);
    }
  }
}

const AddedTokens::Entry* AddedTokens::longest_at(std::string_view text) const {
  const Entry* best = nullptr;
  auto low = entries_.begin();
  auto high = entries_.end();
  for (size_t depth = 0; depth < text.size(); ++depth) {
    const uint8_t wanted = byte_at(text, depth);
    // Within [low, high) all agree in their first `depth` bytes; one that ends there sorts first.
    const auto value = [depth](const Entry& entry) {
      return entry.text.size() > depth ? int{byte_at(entry.text, depth)} : -1;
    };
    low =
        std::partition_point(low, high, [&](const Entry& entry) { return value(entry) < wanted; });
    high =
        std::partition_point(low, high, [&](const Entry& entry) { return value(entry) == wanted; });
    if (low == high) break;
    if (low->text.size() == depth + 1) best = &*low;
  }
  return best;
}

std::optional<AddedTokens::Match> AddedTokens::find(std::string_view text, size_t from) const {
  if (entries_.empty()) return std::nullopt;
  for (size_t at = from; at < text.size(); ++at) {
    if (!first_[byte_at(text, at)]) continue;
    if (at + 1 < text.size() && !first_two_[pair_at(text, at)]) continue;
    if (const Entry* entry = longest_at(text.substr(at))) {
      return Match{.begin = at, .end = at + entry->text.size(), .entry = entry};
    }
  }
  return std::nullopt;
}

}  // namespace ondol::tokenizer
