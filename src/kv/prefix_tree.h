// Thread rule: one thread (the engine's).
//
// What was computed before, by its tokens: a radix tree whose edges are pages.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "kv/sequence.h"

namespace ondol::kv {

/// Why a lookup ended where it did.
enum class MissReason : uint8_t {
  kNone,       ///< every token was found
  kNeverSeen,  ///< nothing with this root went on like this
  kEvicted,    ///< the next whole page was there once and had to go
  kWindow,     ///< more was seen, but a sliding window's pages that it needs are gone
};

/// What of a token string can be resumed.
struct Match {
  int n_tokens = 0;  ///< tokens that need not be computed
  int n_seen = 0;    ///< tokens that agree with something in the tree, resumable or not
  MissReason reason = MissReason::kNone;
  /// Per group, the pages of [0, n_tokens); kNoPage where a window no longer reads. Where n_tokens
  /// ends inside a page, the last one is only to be copied: its holder is not the only one.
  std::vector<std::vector<PageId>> tables;
};

/// A page that the tree holds already where a sequence has one of its own with the same content.
struct Duplicate {
  int group = 0;
  size_t index = 0;  ///< in the group's page table
  PageId page = 0;   ///< the tree's
};

struct PrefixStats {
  uint64_t nodes = 0;
  uint64_t tokens = 0;          ///< tokens held
  std::vector<uint64_t> pages;  ///< pages held, per group
  uint64_t bytes = 0;           ///< of these pages
  uint64_t evicted_pages = 0;   ///< since the start
  uint64_t evicted_bytes = 0;   ///< since the start
  bool operator==(const PrefixStats&) const = default;
};

/// Computed pages, found again by their tokens. The tree is one holder of each of its pages; it
/// knows token ids, page ids and bytes only. Roots keep apart what must not meet (tenant, adapter);
/// tokens themselves are compared, never hashes alone.
///
/// Each node is one page: exactly `page_tokens` tokens, or fewer in a leaf where a sequence ended.
/// A node holds the page of every group with full attention; a sliding window's page may be
/// missing. A place d can be resumed if the full groups' pages of [0, d) and each window's pages of
/// what position d reads before itself are there. (A group of recurrent state would need a snapshot
/// taken exactly at d; resumable() is where that belongs.)
///
/// Eviction takes the page with the least expected seconds saved per byte: seconds(depth) * (1 +
/// hits) * 2^(-age / kHalfLife), where age counts touches of the tree. Its logarithm orders pages
/// in the same way at all times, so that the order is kept in a set. Whole nodes go from the
/// leaves; of windows single pages go, first those that no sequence ended or resumed at.
class PrefixTree {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// Touches of the tree in which the worth of a hit halves.
  static constexpr double kHalfLife = 64;
  /// Depth, in tokens, at which a token costs twice what the first one does.
  static constexpr double kDoubleCost = 8192;

  /// `groups` must outlive the tree.
  PrefixTree(std::span<Group> groups, int page_tokens);
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  /// The longest beginning of `tokens` that can be resumed. A caller who must compute at least one
  /// token leaves out the last. O(tokens). The pages are not retained.
  Match lookup(std::string_view root, std::span<const int32_t> tokens) const;
  /// Counts a use: [0, n_tokens) was resumed. `now` is what expire() compares with.
  void touch(std::string_view root, std::span<const int32_t> tokens, Time now = {});
  /// Publishes the pages of `tokens`, one table per group (kNoPage where a window moved on). The
  /// last page may be filled in part, if nobody will write to it again. `ends`: a sequence may be
  /// resumed here (its end, or that of its prompt), so that windows are worth keeping. Returns
  /// pages that the tree had already: the sequence should use these and let go of its own.
  /// O(tokens).
  std::vector<Duplicate> insert(std::string_view root, std::span<const int32_t> tokens,
                                std::span<const std::span<const PageId>> tables, bool ends,
                                Time now = {});
  /// Pinned pages go last, and do not expire. Pins what is there of `tokens`; returns how many that
  /// are.
  int pin(std::string_view root, std::span<const int32_t> tokens, bool pinned);

  /// Lets pages go until each pool has n_free[group] free ones. Never touches a page that a
  /// sequence holds. False where that does not suffice: then everything that could go went.
  bool evict(std::span<const uint32_t> n_free);
  /// Pages of a group that evict() could free. O(nodes).
  uint32_t evictable(int group) const;
  /// Lets go of what was not used since `before`; returns the nodes that went.
  size_t expire(Time before);
  /// Lets go of everything.
  void clear();

  PrefixStats stats() const;
  /// Every node: its root, all tokens up to its end, its pages per group.
  using Visitor = std::function<void(std::string_view root, std::span<const int32_t> tokens,
                                     std::span<const PageId> pages)>;
  void visit(const Visitor& visitor) const;
  /// Whether tree, order of eviction, counts and pools agree; run by tests and when idle.
  Result<void> check_integrity() const;

 private:
  struct Node;
  struct Less {
    using is_transparent = void;
    bool operator()(std::span<const int32_t> a, std::span<const int32_t> b) const;
  };
  using Children = std::map<std::vector<int32_t>, std::unique_ptr<Node>, Less>;
  struct Place {  ///< of a page in the order of eviction
    double score;
    uint64_t serial;
    Node* node;
    bool operator<(const Place& other) const {
      return score != other.score ? score < other.score : serial < other.serial;
    }
  };
  struct Walk;  ///< a lookup under way

  Node* root_node(std::string_view root, bool make);
  template <class Visit>
  void for_each_known(std::string_view root, std::span<const int32_t> tokens, Visit visit);
  Node* add(Node* parent, std::span<const int32_t> block, uint64_t hash);
  void absorb_shorter(Node* parent, std::span<const int32_t> block);
  void fill(Node* node, size_t index, std::span<const std::span<const PageId>> tables,
            std::vector<Duplicate>& duplicates);
  void use(Node* node, bool hit, int end, bool ends, Time now);
  void refresh(Node* node);
  void withdraw(Node* node);
  double score(const Node& node, size_t use) const;
  void remove(Node* node);
  void prune(Node* node);
  void drop_page(Node* node, size_t group);
  bool free_enough(std::span<const uint32_t> n_free, size_t group) const;
  bool evict_window(std::span<const uint32_t> n_free, size_t group);
  bool evict_leaf();
  bool held(const Node& node) const;
  void remember(const Node& node);
  bool remembered(uint64_t hash) const;
  int first_page(size_t group, int depth) const;
  bool resumable(const Walk& walk, const Node* last, int page, int depth) const;
  void find_part(Walk& walk, const Node& parent, std::span<const int32_t> rest) const;
  Match finish(const Walk& walk, std::string_view root, std::span<const int32_t> tokens) const;
  Result<void> check_node(const Node& node, PrefixStats& counted) const;

  std::span<Group> groups_;
  size_t page_tokens_;
  std::map<std::string, std::unique_ptr<Node>, std::less<>> roots_;
  std::set<Place> leaves_;                ///< nodes that may go as a whole
  std::vector<std::set<Place>> windows_;  ///< per group: nodes whose page may go alone
  uint64_t tick_ = 0;                     ///< touches so far
  uint64_t next_serial_ = 1;
  PrefixStats stats_;
  std::deque<uint64_t> gone_order_;  ///< paths evicted lately, to tell why something is missing
  std::unordered_map<uint64_t, uint32_t> gone_;
};

}  // namespace ondol::kv
