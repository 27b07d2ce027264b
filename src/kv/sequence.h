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
  /// Takes pages that others hold as its own beginning, per group, kNoPage where a window no longer
  /// reads. The sequence must be empty and must not write into them.
  void adopt(std::span<const std::vector<PageId>> tables);
  /// Uses another page with the same content, which somebody holds, instead of its own.
  void replace(int group, size_t index, PageId page);
  /// Pages of group g that extend(n_tokens) would take.
  uint32_t missing(int group, int n_tokens) const;
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
