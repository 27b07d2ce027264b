// Thread rule: one thread (the engine's).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/page_pool.h"

namespace ondol::kv {

inline constexpr PageId kNoPage = UINT32_MAX;

/// A group's pool and what its sequences may drop.
struct Group {
  PagePool pool;
  int window = 0;  ///< tokens that stay readable; 0: all
};

/// The pages of one sequence, per group. Gives them back when it goes away.
class SequencePages {
 public:
  explicit SequencePages(std::span<Group> groups, int page_tokens);
  ~SequencePages();
  SequencePages(SequencePages&& other) noexcept;
  SequencePages& operator=(SequencePages&&) = delete;

  /// Makes room for positions [0, n_tokens); all or nothing. kNoMemory where a pool has too few
  /// free pages.
  Result<void> extend(int n_tokens);
  /// Gives back the pages that no position >= `next_position` will read: those that every window
  /// has left behind.
  void drop_behind(int next_position);
  /// Page ids of group g; kNoPage where a window has moved on.
  std::span<const PageId> table(int group) const { return tables_[static_cast<size_t>(group)]; }
  /// Pages held in all groups.
  uint64_t pages_held() const;

 private:
  std::span<Group> groups_;
  int page_tokens_;
  std::vector<std::vector<PageId>> tables_;
  std::vector<size_t> first_kept_;  // per group: pages before it are dropped
};

}  // namespace ondol::kv
