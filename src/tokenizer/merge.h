// Thread rule: a Merger from one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "tokenizer/text_map.h"

namespace ondol::tokenizer {

/// A part of the text that is being merged: bytes [begin, end) and, once known, the token that they
/// are.
struct Symbol {
  uint32_t begin = 0;
  uint32_t end = 0;
  TokenId id = -1;
};

/// Byte-pair merging: again and again the pair with the lowest rank, the leftmost of equals,
/// becomes one symbol. Short words by scanning, long ones with a heap: O(n log n) whatever the
/// text.
class Merger {
 public:
  std::vector<Symbol> symbols;  ///< in: the smallest parts; out: what is left when no rule applies

  /// `rule(left, right)` gives the MergeMap::Merge for two neighbours.
  template <class Rule>
  void run(const Rule& rule) {
    if (symbols.size() < 2) return;
    if (symbols.size() <= kShort) {
      run_short(rule);
    } else {
      run_long(rule);
    }
  }

  size_t steps = 0;  ///< merges tried so far: what tests of linearity count

 private:
  static constexpr size_t kShort = 40;
  static constexpr uint32_t kNone = UINT32_MAX;

  template <class Rule>
  void run_short(const Rule& rule) {
    size_t count = symbols.size();
    pairs_.resize(count);
    for (size_t i = 0; i + 1 < count; ++i) pairs_[i] = rule(symbols[i], symbols[i + 1]);
    while (true) {
      size_t best = 0;
      for (size_t i = 1; i + 1 < count; ++i) {
        if (pairs_[i].rank < pairs_[best].rank) best = i;
      }
      if (count < 2 || pairs_[best].rank == kNone) break;
      ++steps;
      symbols[best].end = symbols[best + 1].end;
      symbols[best].id = pairs_[best].result;
      for (size_t i = best + 1; i + 1 < count; ++i) {
        symbols[i] = symbols[i + 1];
        pairs_[i] = pairs_[i + 1];
      }
      --count;
      if (best + 1 < count) pairs_[best] = rule(symbols[best], symbols[best + 1]);
      if (best > 0) pairs_[best - 1] = rule(symbols[best - 1], symbols[best]);
    }
    symbols.resize(count);
  }

  template <class Rule>
  void run_long(const Rule& rule) {
    const auto count = static_cast<uint32_t>(symbols.size());
    pairs_.assign(count, {});
    next_.resize(count);
    previous_.resize(count);
    std::vector<uint64_t> start;
    start.reserve(count);
    for (uint32_t i = 0; i < count; ++i) {
      next_[i] = i + 1 < count ? i + 1 : kNone;
      previous_[i] = i > 0 ? i - 1 : kNone;
      if (i + 1 < count) pairs_[i] = rule(symbols[i], symbols[i + 1]);
      if (pairs_[i].rank != kNone) start.push_back(uint64_t{pairs_[i].rank} << 32 | i);
    }
    std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> heap(std::greater<>(),
                                                                              std::move(start));
    const auto renew = [&](uint32_t i) {
      pairs_[i] = next_[i] == kNone ? MergeMap::Merge{} : rule(symbols[i], symbols[next_[i]]);
      if (pairs_[i].rank != kNone) heap.push(uint64_t{pairs_[i].rank} << 32 | i);
    };
    while (!heap.empty()) {
      ++steps;
      const auto rank = static_cast<uint32_t>(heap.top() >> 32);
      const auto at = static_cast<uint32_t>(heap.top());
      heap.pop();
      if (pairs_[at].rank != rank) continue;  // one side has been merged since
      const uint32_t right = next_[at];
      symbols[at].end = symbols[right].end;
      symbols[at].id = pairs_[at].result;
      pairs_[right] = {};
      next_[at] = next_[right];
      if (next_[at] != kNone) previous_[next_[at]] = at;
      renew(at);
      if (previous_[at] != kNone) renew(previous_[at]);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i != kNone; i = next_[i])
      symbols[kept++] = symbols[i];  // kept <= i: nothing unread is lost
    symbols.resize(kept);
  }

  std::vector<MergeMap::Merge> pairs_;  // pairs_[i]: symbol i with the next one
  std::vector<uint32_t> next_;
  std::vector<uint32_t> previous_;
};

}  // namespace ondol::tokenizer
