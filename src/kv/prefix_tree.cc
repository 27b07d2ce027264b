#include "kv/prefix_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

namespace ondol::kv {
namespace {

/// Scores are logarithms of seconds per byte; a step of this size is above every other difference.
constexpr double kRank = 1e12;
constexpr size_t kRemembered = size_t{1} << 16;

size_t common_length(std::span<const int32_t> a, std::span<const int32_t> b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

/// A name for a path, to remember that it was there; only for telling why it is missing.
uint64_t path_hash(uint64_t parent, std::span<const int32_t> block) {
  uint64_t hash = parent ^ 0x9E3779B97F4A7C15u;
  for (const int32_t token : block) {
    hash = (hash ^ static_cast<uint32_t>(token)) * 0xD6E8FEB86659FD93u;
    hash ^= hash >> 32;
  }
  return hash;
}

uint64_t root_hash(std::string_view root) { return std::hash<std::string_view>()(root); }

}  // namespace

struct PrefixTree::Node {
  struct Use {
    double last = 0;     ///< touch in which it was used last
    double hits = 0;     ///< times it was resumed
    bool ended = false;  ///< a sequence ended or resumed within the window behind it
    double score = 0;    ///< as it stands in the order of eviction
    bool placed = false;
  };
  Node* parent = nullptr;
  const std::string* root = nullptr;       ///< the key of roots_, in a root node only
  const std::vector<int32_t>* block = {};  ///< its tokens: the key in the parent's children
  int begin = 0;                           ///< tokens before it
  uint64_t serial = 0;
  uint64_t hash = 0;
  bool pinned = false;
  Time used;
  std::vector<PageId> pages;
  std::vector<Use> uses;  ///< per group; one more for the whole node
  Children children;

  bool is_root() const { return parent == nullptr; }
  int end() const { return begin + static_cast<int>(block->size()); }
};

struct PrefixTree::Walk {
  std::vector<const Node*> path;  ///< whole pages that match
  const Node* part = nullptr;     ///< a page that matches at its head and can be resumed there
  int n_seen = 0;                 ///< tokens in which some page there agrees
  int best = 0;                   ///< tokens that can be resumed
  std::vector<int> run_start;     ///< per group: pages from here to the last one are all there
};

bool PrefixTree::Less::operator()(std::span<const int32_t> a, std::span<const int32_t> b) const {
  return std::ranges::lexicographical_compare(a, b);
}

PrefixTree::PrefixTree(std::span<Group> groups, int page_tokens)
    : groups_(groups), page_tokens_(static_cast<size_t>(page_tokens)), windows_(groups.size()) {
  assert(page_tokens > 0);
  stats_.pages.assign(groups.size(), 0);
}

PrefixTree::~PrefixTree() { clear(); }

PrefixTree::Node* PrefixTree::root_node(std::string_view root, bool make) {
  auto found = roots_.find(root);
  if (found == roots_.end()) {
    if (!make) return nullptr;
    found = roots_.emplace(std::string(root), std::make_unique<Node>()).first;
    found->second->root = &found->first;
    found->second->hash = root_hash(root);
  }
  return found->second.get();
}

// --- Lookup ---

int PrefixTree::first_page(size_t group, int depth) const {
  const int window = groups_[group].window;
  if (window == 0) return 0;
  // Position `depth` reads (depth - window, depth].
  return std::max(0, depth - window + 1) / static_cast<int>(page_tokens_);
}

/// Whether `depth` can be resumed, where it lies in (or at the end of) page number `page`, held by
/// `last`; the pages before are those of the walk.
bool PrefixTree::resumable(const Walk& walk, const Node* last, int page, int depth) const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int first = first_page(g, depth);
    if (first <= page && last->pages[g] == kNoPage) return false;
    if (first < page && walk.run_start[g] > first) return false;
  }
  return true;
}

/// The child that agrees with the head of `rest` for longest and can be resumed there.
void PrefixTree::find_part(Walk& walk, const Node& parent, std::span<const int32_t> rest) const {
  constexpr int kTries = 64;  // where many siblings have lost their window, one is computed again
  const auto page = static_cast<int>(walk.path.size());
  // True where looking further in this direction is of no use: agreement only gets shorter.
  const auto consider = [&](const auto& child) {
    const auto n = static_cast<int>(common_length(child->first, rest));
    walk.n_seen = std::max(walk.n_seen, n);
    const int depth = page * static_cast<int>(page_tokens_) + n;
    if (n == 0 || depth <= walk.best) return true;
    if (!resumable(walk, child->second.get(), page, depth)) return false;
    walk.part = child->second.get();
    walk.best = depth;
    return true;
  };
  // In the order of tokens those with the longest common beginning stand next to `rest`.
  const auto after = parent.children.lower_bound(rest);
  auto it = after;
  for (int i = 0; i < kTries && it != parent.children.end() && !consider(it); ++i) ++it;
  it = after;
  for (int i = 0; i < kTries && it != parent.children.begin() && !consider(std::prev(it)); ++i)
    --it;
}

Match PrefixTree::lookup(std::string_view root, std::span<const int32_t> tokens) const {
  Walk walk;
  walk.run_start.assign(groups_.size(), 0);
  const auto found = roots_.find(root);
  if (found == roots_.end()) return finish(walk, root, tokens);
  const Node* node = found->second.get();
  auto rest = tokens;
  while (rest.size() >= page_tokens_) {
    const auto next = node->children.find(rest.first(page_tokens_));
    if (next == node->children.end()) break;
    node = next->second.get();
    rest = rest.subspan(page_tokens_);
    const auto page = static_cast<int>(walk.path.size());
    if (resumable(walk, node, page, node->end())) {
      walk.best = node->end();
      walk.part = nullptr;
    } else {  // a neighbour may have kept what this one has lost
      find_part(walk, *node->parent, *node->block);
      walk.n_seen = 0;
    }
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (node->pages[g] == kNoPage) walk.run_start[g] = page + 1;
    }
    walk.path.push_back(node);
  }
  if (!rest.empty()) find_part(walk, *node, rest.first(std::min(rest.size(), page_tokens_)));
  return finish(walk, root, tokens);
}

Match PrefixTree::finish(const Walk& walk, std::string_view root,
                         std::span<const int32_t> tokens) const {
  Match match{.n_tokens = walk.best,
              .n_seen = static_cast<int>(walk.path.size() * page_tokens_) + walk.n_seen,
              .reason = MissReason::kNone,
              .tables = {}};
  const size_t n_pages = (static_cast<size_t>(walk.best) + page_tokens_ - 1) / page_tokens_;
  for (size_t g = 0; g < groups_.size(); ++g) {
    std::vector<PageId> table(n_pages, kNoPage);
    for (auto i = static_cast<size_t>(first_page(g, walk.best)); i < n_pages; ++i)
      table[i] = (walk.part != nullptr && i + 1 == n_pages ? walk.part : walk.path[i])->pages[g];
    match.tables.push_back(std::move(table));
  }
  const size_t place = walk.path.size() * page_tokens_;
  if (match.n_seen > match.n_tokens) {
    match.reason = MissReason::kWindow;
  } else if (match.n_seen < static_cast<int>(tokens.size())) {
    match.reason = MissReason::kNeverSeen;
    const uint64_t before = walk.path.empty() ? root_hash(root) : walk.path.back()->hash;
    if (tokens.size() - place >= page_tokens_ &&
        remembered(path_hash(before, tokens.subspan(place, page_tokens_))))
      match.reason = MissReason::kEvicted;
  }
  return match;
}

// --- Insertion and use ---

PrefixTree::Node* PrefixTree::add(Node* parent, std::span<const int32_t> block, uint64_t hash) {
  const auto [place, added] = parent->children.emplace(
      std::vector<int32_t>(block.begin(), block.end()), std::make_unique<Node>());
  assert(added);
  Node* node = place->second.get();
  node->parent = parent;
  node->block = &place->first;
  node->begin = parent->is_root() ? 0 : parent->end();
  node->serial = next_serial_++;
  node->hash = hash;
  node->pages.assign(groups_.size(), kNoPage);
  node->uses.resize(groups_.size() + 1);
  ++stats_.nodes;
  stats_.tokens += block.size();
  refresh(parent);  // no leaf any more
  return node;
}

/// A page that was filled in part and is now known with more tokens is held once.
void PrefixTree::absorb_shorter(Node* parent, std::span<const int32_t> block) {
  // Only the nearest before `block` in the order of tokens can be a beginning of it: a beginning
  // of a beginning was absorbed before.
  const auto after = parent->children.lower_bound(block);
  if (after == parent->children.begin()) return;
  const auto& [tokens, child] = *std::prev(after);
  if (tokens.size() < block.size() && common_length(tokens, block) == tokens.size())
    remove(child.get());
}

void PrefixTree::fill(Node* node, size_t index, std::span<const std::span<const PageId>> tables,
                      std::vector<Duplicate>& duplicates) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const PageId page = index < tables[g].size() ? tables[g][index] : kNoPage;
    if (page == kNoPage || page == node->pages[g]) continue;
    if (node->pages[g] != kNoPage) {
      duplicates.push_back({static_cast<int>(g), index, node->pages[g]});
      continue;
    }
    groups_[g].pool.retain(page);
    node->pages[g] = page;
    ++stats_.pages[g];
    stats_.bytes += groups_[g].pool.page_bytes();
  }
}

/// Marks a node as used by a sequence that is, or was resumed, at `end`.
void PrefixTree::use(Node* node, bool hit, int end, bool ends, Time now) {
  node->used = std::max(node->used, now);
  const auto page = node->begin / static_cast<int>(page_tokens_);
  for (size_t u = 0; u < node->uses.size(); ++u) {
    Node::Use& use = node->uses[u];
    const bool whole = u == groups_.size();
    const bool wanted = whole || first_page(u, end) <= page;
    if (!wanted && use.last != 0) continue;
    use.last = static_cast<double>(tick_);
    if (hit && wanted) use.hits += 1;
    use.ended = use.ended || (ends && wanted);
  }
  refresh(node);
}

std::vector<Duplicate> PrefixTree::insert(std::string_view root, std::span<const int32_t> tokens,
                                          std::span<const std::span<const PageId>> tables,
                                          bool ends, Time now) {
  std::vector<Duplicate> duplicates;
  if (tokens.empty()) return duplicates;
  ++tick_;
  const auto end = static_cast<int>(tokens.size());
  Node* node = root_node(root, true);
  for (size_t index = 0; !tokens.empty(); ++index) {
    const auto block = tokens.first(std::min(tokens.size(), page_tokens_));
    tokens = tokens.subspan(block.size());
    const auto found = node->children.lower_bound(block);
    const bool known =
        found != node->children.end() && common_length(found->first, block) == block.size();
    if (known && found->first.size() > block.size()) {
      use(found->second.get(), false, end, ends, now);  // the tree knows it with more tokens
      break;
    }
    Node* child = known ? found->second.get() : nullptr;
    if (child == nullptr) {
      child = add(node, block, path_hash(node->hash, block));
      absorb_shorter(node, block);
    }
    fill(child, index, tables, duplicates);
    use(child, false, end, ends, now);
    node = child;
  }
  return duplicates;
}

/// visit(node, its tokens) for what the tree knows of `tokens`, page by page; the last page may be
/// known with more tokens.
template <class Visit>
void PrefixTree::for_each_known(std::string_view root, std::span<const int32_t> tokens,
                                Visit visit) {
  Node* node = root_node(root, false);
  while (node != nullptr && !tokens.empty()) {
    const auto block = tokens.first(std::min(tokens.size(), page_tokens_));
    tokens = tokens.subspan(block.size());
    const auto found = node->children.lower_bound(block);
    if (found == node->children.end() || common_length(found->first, block) < block.size()) return;
    node = found->second.get();
    visit(node, block);
  }
}

void PrefixTree::touch(std::string_view root, std::span<const int32_t> tokens, Time now) {
  if (tokens.empty() || root_node(root, false) == nullptr) return;
  ++tick_;
  const auto end = static_cast<int>(tokens.size());
  for_each_known(root, tokens, [&](Node* node, auto) { use(node, true, end, true, now); });
}

int PrefixTree::pin(std::string_view root, std::span<const int32_t> tokens, bool pinned) {
  int n = 0;
  for_each_known(root, tokens, [&](Node* node, std::span<const int32_t> block) {
    node->pinned = pinned;
    n += static_cast<int>(block.size());
    refresh(node);
  });
  return n;
}

// --- Order of eviction ---

double PrefixTree::score(const Node& node, size_t use) const {
  const Node::Use& u = node.uses[use];
  const double seconds = 1 + node.begin / kDoubleCost;  // per token, in those of the first
  double score = std::log2(seconds) + std::log2(1 + u.hits) + u.last / kHalfLife;
  const bool window = use < groups_.size();
  if (window && !u.ended) score -= kRank;
  if (node.pinned) score += 2 * kRank;
  return score;
}

/// Takes a node out of the order of eviction.
void PrefixTree::withdraw(Node* node) {
  for (size_t u = 0; u < node->uses.size(); ++u) {
    Node::Use& use = node->uses[u];
    if (!use.placed) continue;
    auto& order = u == groups_.size() ? leaves_ : windows_[u];
    order.erase({use.score, node->serial, node});
    use.placed = false;
  }
}

/// Puts a node to where it belongs in the order of eviction.
void PrefixTree::refresh(Node* node) {
  if (node->is_root()) return;
  for (size_t u = 0; u < node->uses.size(); ++u) {
    Node::Use& use = node->uses[u];
    const bool whole = u == groups_.size();
    const bool may_go =
        whole ? node->children.empty() : groups_[u].window != 0 && node->pages[u] != kNoPage;
    const double now = score(*node, u);
    if (may_go && use.placed && use.score == now) continue;
    auto& order = whole ? leaves_ : windows_[u];
    if (use.placed) order.erase({use.score, node->serial, node});
    use.score = now;
    use.placed = may_go;
    if (may_go) order.insert({now, node->serial, node});
  }
}

// --- Removal ---

void PrefixTree::drop_page(Node* node, size_t group) {
  groups_[group].pool.release(std::exchange(node->pages[group], kNoPage));
  --stats_.pages[group];
  stats_.bytes -= groups_[group].pool.page_bytes();
}

/// Takes a leaf out of the tree; its parent may become one.
void PrefixTree::remove(Node* node) {
  assert(node->children.empty());
  withdraw(node);
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (node->pages[g] != kNoPage) drop_page(node, g);
  }
  --stats_.nodes;
  stats_.tokens -= node->block->size();
  Node* parent = node->parent;
  parent->children.erase(parent->children.find(*node->block));
  if (parent->children.empty()) refresh(parent);
}

/// Removes leaves that hold no page, from `node` upward, and a root without children.
void PrefixTree::prune(Node* node) {
  while (!node->is_root() && node->children.empty() &&
         std::ranges::all_of(node->pages, [](PageId page) { return page == kNoPage; })) {
    Node* parent = node->parent;
    remove(node);
    node = parent;
  }
  if (node->is_root() && node->children.empty()) roots_.erase(roots_.find(*node->root));
}

bool PrefixTree::held(const Node& node) const {
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (node.pages[g] != kNoPage && groups_[g].pool.holders(node.pages[g]) > 1) return true;
  }
  return false;
}

bool PrefixTree::free_enough(std::span<const uint32_t> n_free, size_t group) const {
  return groups_[group].pool.n_free() >= n_free[group];
}

bool PrefixTree::evict_window(std::span<const uint32_t> n_free, size_t group) {
  auto& order = windows_[group];
  for (auto it = order.begin(); it != order.end() && !free_enough(n_free, group);) {
    const Place place = *it;
    if (groups_[group].pool.holders(place.node->pages[group]) == 1) {
      drop_page(place.node, group);
      ++stats_.evicted_pages;
      stats_.evicted_bytes += groups_[group].pool.page_bytes();
      refresh(place.node);
      prune(place.node);
    }
    it = order.upper_bound(place);  // places move while nodes are taken out
  }
  return free_enough(n_free, group);
}

bool PrefixTree::evict_leaf() {
  for (const Place& place : leaves_) {
    if (held(*place.node)) continue;
    Node* parent = place.node->parent;
    remember(*place.node);
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (place.node->pages[g] == kNoPage) continue;
      ++stats_.evicted_pages;
      stats_.evicted_bytes += groups_[g].pool.page_bytes();
    }
    remove(place.node);
    prune(parent);
    return true;
  }
  return false;
}

bool PrefixTree::evict(std::span<const uint32_t> n_free) {
  assert(n_free.size() == groups_.size());
  bool enough = true;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].window != 0) {
      enough = evict_window(n_free, g) && enough;
      continue;
    }
    while (!free_enough(n_free, g) && evict_leaf()) {
    }
    enough = free_enough(n_free, g) && enough;
  }
  return enough;
}

uint32_t PrefixTree::evictable(int group) const {
  const auto g = static_cast<size_t>(group);
  uint32_t n = 0;
  const auto count = [&](const auto& self, const Node& node) -> bool {  // whether all of it can go
    bool all = true;
    for (const auto& [tokens, child] : node.children) all = self(self, *child) && all;
    if (node.is_root()) return all;
    const bool alone = node.pages[g] != kNoPage && groups_[g].pool.holders(node.pages[g]) == 1;
    all = all && !held(node);
    if (alone && (all || groups_[g].window != 0)) ++n;
    return all;
  };
  for (const auto& [name, root] : roots_) count(count, *root);
  return n;
}

size_t PrefixTree::expire(Time before) {
  size_t gone = 0;
  for (bool found = true; found;) {
    found = false;
    std::vector<Node*> old;
    for (const Place& place : leaves_) {
      if (place.node->used < before && !place.node->pinned && !held(*place.node))
        old.push_back(place.node);
    }
    for (Node* node : old) {
      Node* parent = node->parent;
      remember(*node);
      remove(node);
      prune(parent);
      ++gone;
      found = true;
    }
  }
  return gone;
}

void PrefixTree::clear() {
  while (!leaves_.empty()) {
    Node* node = leaves_.begin()->node;
    Node* parent = node->parent;
    remove(node);
    prune(parent);
  }
  assert(roots_.empty() && stats_.nodes == 0);
}

void PrefixTree::remember(const Node& node) {
  if (node.block->size() < page_tokens_) return;
  gone_order_.push_back(node.hash);
  ++gone_[node.hash];
  if (gone_order_.size() <= kRemembered) return;
  const auto oldest = gone_.find(gone_order_.front());
  if (--oldest->second == 0) gone_.erase(oldest);
  gone_order_.pop_front();
}

bool PrefixTree::remembered(uint64_t hash) const { return gone_.contains(hash); }

// --- Looking at it ---

PrefixStats PrefixTree::stats() const { return stats_; }

void PrefixTree::visit(const Visitor& visitor) const {
  std::vector<int32_t> path;
  const auto walk = [&](const auto& self, std::string_view root, const Node& node) -> void {
    if (!node.is_root()) {
      path.insert(path.end(), node.block->begin(), node.block->end());
      visitor(root, path, node.pages);
    }
    for (const auto& [tokens, child] : node.children) self(self, root, *child);
    if (!node.is_root()) path.resize(path.size() - node.block->size());
  };
  for (const auto& [name, root] : roots_) walk(walk, name, *root);
}

Result<void> PrefixTree::check_node(const Node& node, PrefixStats& counted) const {
  const auto at = [&] { return fmt::format("the node at token {}", node.begin); };
  const std::vector<int32_t>* before = nullptr;
  for (const auto& [tokens, child] : node.children) {
    if (child->parent != &node || child->block != &tokens)
      return failed(at() + " has a child that does not know it");
    if (before != nullptr && common_length(*before, tokens) == before->size())
      return failed(at() + " has a child that is the beginning of another");
    if (auto whole = check_node(*child, counted); !whole) return whole;
    before = &tokens;
  }
  if (node.is_root()) return {};
  ++counted.nodes;
  counted.tokens += node.block->size();
  if (node.block->empty() || node.block->size() > page_tokens_)
    return failed(fmt::format("{} has {} tokens", at(), node.block->size()));
  if (node.block->size() < page_tokens_ && !node.children.empty())
    return failed(at() + " is filled in part, but has children");
  for (size_t g = 0; g < groups_.size(); ++g) {
    const PageId page = node.pages[g];
    if (page == kNoPage) {
      if (groups_[g].window == 0) return failed(at() + " lacks a page of full attention");
    } else {
      if (groups_[g].pool.holders(page) == 0) return failed(at() + " holds a page that is free");
      ++counted.pages[g];
      counted.bytes += groups_[g].pool.page_bytes();
    }
    if (node.uses[g].placed != (page != kNoPage && groups_[g].window != 0))
      return failed(at() + " stands wrongly in the order of a window's pages");
  }
  if (node.uses.back().placed != node.children.empty())
    return failed(at() + " stands wrongly in the order of leaves");
  return {};
}

Result<void> PrefixTree::check_integrity() const {
  PrefixStats counted;
  counted.pages.assign(groups_.size(), 0);
  counted.evicted_pages = stats_.evicted_pages;
  counted.evicted_bytes = stats_.evicted_bytes;
  for (const auto& [name, root] : roots_) {
    if (root->children.empty()) return failed("a root is kept without children");
    if (auto whole = check_node(*root, counted); !whole) return whole;
  }
  if (counted != stats_)
    return failed(fmt::format("{} nodes and {} tokens are counted, {} and {} are there",
                              stats_.nodes, stats_.tokens, counted.nodes, counted.tokens));
  const auto ordered = [&](const std::set<Place>& order, size_t use) {
    return std::ranges::all_of(order, [&](const Place& place) {
      return place.node->uses[use].placed && place.node->uses[use].score == place.score;
    });
  };
  if (!ordered(leaves_, groups_.size())) return failed("the order of leaves is out of date");
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (!ordered(windows_[g], g)) return failed("the order of a window's pages is out of date");
    if (auto whole = groups_[g].pool.check_integrity(); !whole) return whole;
  }
  return {};
}

}  // namespace ondol::kv
