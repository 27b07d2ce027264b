#include "kv/sequence.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace ondol::kv {

SequencePages::SequencePages(std::span<Group> groups, int page_tokens)
    : groups_(groups),
      page_tokens_(page_tokens),
      tables_(groups.size()),
      first_kept_(groups.size(), 0) {}

SequencePages::SequencePages(SequencePages&& other) noexcept
    : groups_(other.groups_),
      page_tokens_(other.page_tokens_),
      tables_(std::exchange(other.tables_, {})),
      first_kept_(std::move(other.first_kept_)) {}

SequencePages::~SequencePages() {
  for (size_t g = 0; g < tables_.size(); ++g) {
    for (const PageId page : tables_[g]) {
      if (page != kNoPage) groups_[g].pool.release(page);
    }
  }
}

Result<void> SequencePages::extend(int n_tokens) {
  const auto needed = static_cast<size_t>((n_tokens + page_tokens_ - 1) / page_tokens_);
  for (size_t g = 0; g < tables_.size(); ++g) {
    if (groups_[g].pool.n_free() < missing(static_cast<int>(g), n_tokens)) {
      return no_memory(
          "the KV cache is full; choose a larger one, a smaller context or fewer requests at once");
    }
  }
  for (size_t g = 0; g < tables_.size(); ++g) {
    while (tables_[g].size() < needed) tables_[g].push_back(*groups_[g].pool.allocate());
  }
  return {};
}

void SequencePages::adopt(std::span<const std::vector<PageId>> tables) {
  for (size_t g = 0; g < tables_.size(); ++g) {
    assert(tables_[g].empty());
    tables_[g] = tables[g];
    const auto first =
        std::ranges::find_if(tables_[g], [](PageId page) { return page != kNoPage; });
    first_kept_[g] = static_cast<size_t>(first - tables_[g].begin());
    for (auto page = first; page != tables_[g].end(); ++page) groups_[g].pool.retain(*page);
  }
}

void SequencePages::replace(int group, size_t index, PageId page) {
  const auto g = static_cast<size_t>(group);
  assert(tables_[g][index] != kNoPage);
  groups_[g].pool.retain(page);
  groups_[g].pool.release(std::exchange(tables_[g][index], page));
}

uint32_t SequencePages::missing(int group, int n_tokens) const {
  const auto needed = static_cast<size_t>((n_tokens + page_tokens_ - 1) / page_tokens_);
  const size_t have = tables_[static_cast<size_t>(group)].size();
  return static_cast<uint32_t>(needed > have ? needed - have : 0);
}

void SequencePages::drop_behind(int next_position) {
  for (size_t g = 0; g < tables_.size(); ++g) {
    const int window = groups_[g].window;
    if (window == 0) continue;
    // Position p reads (p - window, p]; the first that next_position still needs is next_position -
    // window + 1.
    const int first_needed = next_position - window + 1;
    const auto keep =
        first_needed <= 0 ? size_t{0} : static_cast<size_t>(first_needed / page_tokens_);
    for (size_t i = first_kept_[g]; i < keep && i < tables_[g].size(); ++i) {
      groups_[g].pool.release(std::exchange(tables_[g][i], kNoPage));
      first_kept_[g] = i + 1;
    }
  }
}

uint64_t SequencePages::pages_held() const {
  uint64_t held = 0;
  for (size_t g = 0; g < tables_.size(); ++g) held += tables_[g].size() - first_kept_[g];
  return held;
}

}  // namespace ondol::kv
