#include "kv/prefix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>

namespace ondol::kv {
namespace {

using Tokens = std::vector<int32_t>;
constexpr int kPage = 4;
constexpr int kWindow = 6;

Tokens head(const Tokens& tokens, size_t n) {
  return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n)};
}

/// A computed text: its pages know what was written to them.
class Computer {
 public:
  explicit Computer(uint32_t pages = 64) {
    groups_.push_back({PagePool::create(64, pages).value(), 0});
    groups_.push_back({PagePool::create(32, pages).value(), kWindow});
    tree_.emplace(groups_, kPage);
    written_.resize(2, std::vector<Tokens>(pages));
  }

  PrefixTree& tree() { return *tree_; }
  std::vector<Group>& groups() { return groups_; }
  SequencePages sequence() { return SequencePages(groups_, kPage); }

  /// Writes tokens [from, to) of `tokens` into the sequence's pages; false where there is no room.
  bool compute(SequencePages& pages, const Tokens& tokens, size_t from, size_t to) {
    pages.drop_behind(static_cast<int>(from));
    if (!pages.extend(static_cast<int>(to))) return false;
    for (int g = 0; g < 2; ++g) {
      for (size_t i = from / kPage; i * kPage < to; ++i) {
        const PageId page = pages.table(g)[i];
        EXPECT_EQ(groups_[static_cast<size_t>(g)].pool.holders(page), 1u) << "a shared page";
        written_[static_cast<size_t>(g)][page] = head(tokens, std::min(to, (i + 1) * kPage));
      }
    }
    return true;
  }

  /// Publishes the first n tokens of a sequence; the sequence takes over what was there already.
  void publish(std::string_view root, const Tokens& tokens, size_t n, SequencePages& pages,
               bool ends = true) {
    const std::span<const PageId> tables[] = {pages.table(0), pages.table(1)};
    for (const Duplicate& duplicate : tree_->insert(root, std::span(tokens).first(n), tables, ends))
      pages.replace(duplicate.group, duplicate.index, duplicate.page);
  }

  /// Computes a whole text and leaves it to the tree, `step` tokens at a time.
  void keep(std::string_view root, const Tokens& tokens, size_t step = 100) {
    SequencePages pages = sequence();
    for (size_t from = 0; from < tokens.size(); from += step) {
      const size_t to = std::min(tokens.size(), from + step);
      ASSERT_TRUE(compute(pages, tokens, from, to));
      publish(root, tokens, to == tokens.size() ? to : to / kPage * kPage, pages,
              to == tokens.size());
    }
  }

  int resumable(std::string_view root, const Tokens& tokens) const {
    return tree_->lookup(root, tokens).n_tokens;
  }

  /// What was written to a page: all tokens up to its end.
  const Tokens& written(size_t group, PageId page) const { return written_[group][page]; }

 private:
  std::vector<Group> groups_;
  std::optional<PrefixTree> tree_;
  std::vector<std::vector<Tokens>> written_;
};

Tokens range(int32_t first, int count) {
  Tokens tokens(static_cast<size_t>(count));
  for (auto& token : tokens) token = first++;
  return tokens;
}

Tokens join(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(PrefixTree, FindsTheLongestBeginningAlsoWithinAPage) {
  Computer c;
  c.keep("a", range(0, 10));
  EXPECT_EQ(c.resumable("a", range(0, 10)), 10);
  EXPECT_EQ(c.resumable("a", range(0, 20)), 10);
  EXPECT_EQ(c.resumable("a", range(0, 7)), 7);
  EXPECT_EQ(c.resumable("a", join(range(0, 6), {99, 98})), 6);
  EXPECT_EQ(c.resumable("a", {99}), 0);
  EXPECT_EQ(c.resumable("b", range(0, 10)), 0) << "another root";
  EXPECT_EQ(c.resumable("a", {}), 0);
  ASSERT_TRUE(c.tree().check_integrity());
}

TEST(PrefixTree, APartlyFilledPageIsHeldOnceWhenItGrows) {
  Computer c;
  c.keep("a", range(0, 6));
  c.keep("a", range(0, 7));
  EXPECT_EQ(c.tree().stats().nodes, 2u);
  c.keep("a", range(0, 12));
  EXPECT_EQ(c.tree().stats().nodes, 3u);
  EXPECT_EQ(c.tree().stats().tokens, 12u);
  c.keep("a", range(0, 5));  // known already
  EXPECT_EQ(c.tree().stats().tokens, 12u);
  ASSERT_TRUE(c.tree().check_integrity());
}

TEST(PrefixTree, TheSameTextComputedTwiceIsKeptOnce) {
  Computer c;
  SequencePages one = c.sequence();
  SequencePages two = c.sequence();
  const Tokens text = range(0, 8);
  ASSERT_TRUE(c.compute(one, text, 0, 8));
  ASSERT_TRUE(c.compute(two, text, 0, 8));
  c.publish("a", text, 8, one);
  c.publish("a", text, 8, two);
  EXPECT_EQ(one.table(0)[0], two.table(0)[0]);
  EXPECT_EQ(c.groups()[0].pool.n_free(), 62u);
}

TEST(PrefixTree, AWindowIsResumedOnlyWhereItsPagesAre) {
  Computer c;
  const Tokens text = range(0, 40);
  c.keep("a", text);  // in one pass: every page of the window is still there
  EXPECT_EQ(c.resumable("a", head(text, 9)), 9);
  // The pages that no sequence ended at go first: those before the last six tokens.
  const uint32_t wanted[] = {0, 64 - 2};
  ASSERT_TRUE(c.tree().evict(wanted));
  EXPECT_EQ(c.resumable("a", text), 40);
  const Match match = c.tree().lookup("a", head(text, 20));
  EXPECT_EQ(match.n_tokens, 0);
  EXPECT_EQ(match.n_seen, 20);
  EXPECT_EQ(match.reason, MissReason::kWindow);
  EXPECT_EQ(c.tree().stats().evicted_pages, 8u);
  c.keep("a", head(text, 20));  // computed again: the pages are filled in
  EXPECT_EQ(c.resumable("a", head(text, 20)), 20);
  ASSERT_TRUE(c.tree().check_integrity());
}

TEST(PrefixTree, TheLeastUsefulLeafGoesFirst) {
  Computer c(64);
  for (int i = 0; i < 4; ++i) c.keep("a", join(range(0, 4), range(100 * (i + 1), 4)));
  const auto left = [&](int i) {
    return c.resumable("a", join(range(0, 4), range(100 * (i + 1), 4)));
  };
  c.tree().touch("a", join(range(0, 4), range(100, 4)));
  uint32_t wanted[] = {60, 0};
  ASSERT_TRUE(c.tree().evict(wanted));
  EXPECT_EQ(left(0), 8) << "resumed once";
  EXPECT_EQ(left(1), 4) << "the oldest";
  EXPECT_EQ(left(2), 8);
  EXPECT_EQ(c.tree().lookup("a", join(range(0, 4), range(200, 4))).reason, MissReason::kEvicted);
  EXPECT_EQ(c.tree().lookup("a", join(range(0, 4), range(900, 4))).reason, MissReason::kNeverSeen);
  EXPECT_EQ(c.tree().pin("a", join(range(0, 4), range(300, 4)), true), 8);
  wanted[0] = 62;
  ASSERT_TRUE(c.tree().evict(wanted));
  EXPECT_EQ(left(2), 8) << "pinned";
  EXPECT_EQ(left(0), 4);
  wanted[0] = 64;
  ASSERT_TRUE(c.tree().evict(wanted)) << "a pin keeps nobody from going on";
  EXPECT_EQ(c.tree().stats().nodes, 0u);
}

TEST(PrefixTree, HitsOutweighAgeAndLoseTheirWeight) {
  Computer c(256);
  c.keep("a", range(0, 4));
  for (int i = 0; i < 7; ++i) c.tree().touch("a", range(0, 4));  // three half-lives
  const auto after = [&](int touches) {
    for (int i = 0; i < touches; ++i) c.tree().touch("b", {{1}});
  };
  c.keep("b", range(0, 4));
  c.tree().pin("b", range(0, 4), true);
  after(static_cast<int>(2 * PrefixTree::kHalfLife));
  c.keep("a", range(50, 4));
  const uint32_t one[] = {c.groups()[0].pool.n_free() + 1, 0};
  ASSERT_TRUE(c.tree().evict(one));
  EXPECT_EQ(c.resumable("a", range(50, 4)), 0) << "never used, though newer";
  after(static_cast<int>(2 * PrefixTree::kHalfLife));
  c.keep("a", range(50, 4));
  ASSERT_TRUE(c.tree().evict(one));
  EXPECT_EQ(c.resumable("a", range(0, 4)), 0) << "its hits are long ago";
}

TEST(PrefixTree, ExpiresWhatWasNotUsed) {
  Computer c;
  const auto at = [](int seconds) { return PrefixTree::Time(std::chrono::seconds(seconds)); };
  c.keep("a", range(0, 8));
  c.keep("b", range(0, 8));
  c.tree().touch("a", range(0, 4), at(10));
  EXPECT_EQ(c.tree().expire(at(5)), 3u);
  EXPECT_EQ(c.resumable("a", range(0, 8)), 4);
  EXPECT_EQ(c.resumable("b", range(0, 8)), 0);
  EXPECT_EQ(c.tree().expire(at(10)), 0u);
  ASSERT_TRUE(c.tree().check_integrity());
}

/// The tree's contract, kept by trying everything.
class Twin {
 public:
  using Key = std::pair<std::string, Tokens>;  // root, all tokens up to the end of a page
  std::map<Key, std::vector<PageId>> nodes;

  void insert(const std::string& root, const Tokens& tokens, const SequencePages& pages) {
    for (size_t i = 0; i * kPage < tokens.size(); ++i) {
      const Tokens path = head(tokens, std::min(tokens.size(), (i + 1) * kPage));
      if (path.size() % kPage != 0 && begins(root, path, true)) continue;
      std::erase_if(nodes, [&](const auto& node) {
        return node.first.first == root && node.first.second.size() > i * kPage &&
               node.first.second.size() < path.size() &&
               std::ranges::equal(node.first.second, head(path, node.first.second.size()));
      });
      auto& held = nodes.try_emplace({root, path}, std::vector<PageId>(2, kNoPage)).first->second;
      for (int g = 0; g < 2; ++g) {
        if (held[static_cast<size_t>(g)] == kNoPage)
          held[static_cast<size_t>(g)] = pages.table(g)[i];
      }
    }
  }

  /// Whether a node of the same page begins with, and is longer than, `path`.
  bool begins(const std::string& root, const Tokens& path, bool longer) const {
    return std::ranges::any_of(nodes, [&](const auto& node) {
      const auto& [name, tokens] = node.first;
      return name == root && tokens.size() >= path.size() + (longer ? 1 : 0) &&
             (tokens.size() - 1) / kPage == (path.size() - 1) / kPage &&
             std::ranges::equal(head(tokens, path.size()), path);
    });
  }

  bool usable(const std::string& root, const Tokens& path) const {
    const auto d = static_cast<int>(path.size());
    const int first = std::max(0, d - kWindow + 1) / kPage;
    for (int i = 0; i * kPage < d - kPage; ++i) {
      const auto found = nodes.find({root, head(path, static_cast<size_t>((i + 1) * kPage))});
      if (found == nodes.end()) return false;
      if (i >= first && found->second[1] == kNoPage) return false;
    }
    return std::ranges::any_of(nodes, [&](const auto& node) {  // the last page, whole or in part
      const auto& [name, tokens] = node.first;
      return name == root && tokens.size() >= path.size() &&
             (tokens.size() - 1) / kPage == (path.size() - 1) / kPage &&
             std::ranges::equal(head(tokens, path.size()), path) &&
             (first > (d - 1) / kPage || node.second[1] != kNoPage);
    });
  }

  int lookup(const std::string& root, const Tokens& tokens) const {
    size_t n = tokens.size();
    while (n > 0 && !usable(root, head(tokens, n))) --n;
    return static_cast<int>(n);
  }
};

/// Random operations on a tree and its twin.
class Differential {
 public:
  explicit Differential(uint32_t seed) : random_(seed), c_(40) {}

  void run(int operations) {
    for (int i = 0; i < operations; ++i) {
      SCOPED_TRACE(i);
      switch (random_() % 12) {
        case 0:
        case 1:
          start();
          break;
        case 2:
          evict();
          break;
        case 3:
          finish();
          break;
        case 4:
          look();
          break;
        default:
          grow();
      }
      compare();
      if (testing::Test::HasFailure()) return;
    }
  }

 private:
  struct Running {
    std::string root;
    Tokens tokens;
    size_t n_computed;
    SequencePages pages;
  };

  size_t below(size_t n) { return random_() % n; }

  /// A text that often begins like others.
  Tokens text() {
    Tokens tokens(1 + below(36));
    for (auto& token : tokens) token = static_cast<int32_t>(below(12) == 0 ? 1 : 0);
    return tokens;
  }

  /// Checks a lookup against the twin and the pages' content.
  Match look_up(const std::string& root, const Tokens& tokens) {
    Match match = c_.tree().lookup(root, tokens);
    EXPECT_EQ(match.n_tokens, twin_.lookup(root, tokens));
    EXPECT_GE(match.n_seen, match.n_tokens);
    const int first = std::max(0, match.n_tokens - kWindow + 1) / kPage;
    for (size_t g = 0; g < 2; ++g) {
      for (size_t i = 0; i < match.tables[g].size(); ++i) {
        const PageId page = match.tables[g][i];
        if (g == 1 && static_cast<int>(i) < first) {
          EXPECT_EQ(page, kNoPage);
          continue;
        }
        const size_t n = std::min(static_cast<size_t>(match.n_tokens), (i + 1) * kPage);
        const Tokens& written = c_.written(g, page);
        EXPECT_TRUE(written.size() >= n && head(written, n) == head(tokens, n))
            << "group " << g << " page " << i;
      }
    }
    return match;
  }

  void look() { look_up(std::string(1, static_cast<char>('a' + below(2))), text()); }

  void start() {
    if (running_.size() > 3) return;
    Running r{.root = std::string(1, static_cast<char>('a' + below(2))),
              .tokens = text(),
              .n_computed = 0,
              .pages = c_.sequence()};
    Match match = look_up(r.root, r.tokens);
    for (auto& table : match.tables) table.resize(static_cast<size_t>(match.n_tokens) / kPage);
    // What lies within a page would be copied; here the page's beginning is where it goes on.
    const size_t whole = static_cast<size_t>(match.n_tokens) / kPage * kPage;
    if (match.n_tokens % kPage != 0) match = look_up(r.root, head(r.tokens, whole));
    r.n_computed = static_cast<size_t>(match.n_tokens);
    if (r.n_computed % kPage != 0) return;
    r.pages.adopt(match.tables);
    c_.tree().touch(r.root, head(r.tokens, r.n_computed));
    running_.push_back(std::move(r));
  }

  void publish(Running& r, size_t n, bool ends) {
    twin_.insert(r.root, head(r.tokens, n), r.pages);
    c_.publish(r.root, r.tokens, n, r.pages, ends);
  }

  void grow() {
    if (running_.empty()) return;
    Running& r = running_[below(running_.size())];
    const size_t to = std::min(r.tokens.size(), r.n_computed + 1 + below(9));
    if (to == r.n_computed || !c_.compute(r.pages, r.tokens, r.n_computed, to)) return;
    r.n_computed = to;
    publish(r, to / kPage * kPage, false);
  }

  void finish() {
    if (running_.empty()) return;
    const auto which = running_.begin() + static_cast<std::ptrdiff_t>(below(running_.size()));
    if (below(4) != 0) publish(*which, which->n_computed, true);
    std::vector<Running> others;
    for (auto it = running_.begin(); it != running_.end(); ++it) {
      if (it != which) others.push_back(std::move(*it));
    }
    running_.clear();
    for (Running& other : others) running_.push_back(std::move(other));
  }

  void evict() {
    const uint32_t can[] = {c_.tree().evictable(0), c_.tree().evictable(1)};
    const uint32_t before[] = {c_.groups()[0].pool.n_free(), c_.groups()[1].pool.n_free()};
    const uint32_t wanted[] = {static_cast<uint32_t>(below(41)), static_cast<uint32_t>(below(41))};
    const bool enough = c_.tree().evict(wanted);
    EXPECT_EQ(enough, before[0] + can[0] >= wanted[0] && before[1] + can[1] >= wanted[1]);
    std::map<Twin::Key, std::vector<PageId>> left;
    c_.tree().visit(
        [&](std::string_view root, std::span<const int32_t> tokens, std::span<const PageId> pages) {
          left[{std::string(root), Tokens(tokens.begin(), tokens.end())}] = {pages.begin(),
                                                                             pages.end()};
        });
    for (const auto& [key, pages] : left) {
      ASSERT_TRUE(twin_.nodes.contains(key));
      for (size_t g = 0; g < 2; ++g)
        EXPECT_TRUE(pages[g] == kNoPage || pages[g] == twin_.nodes[key][g]);
    }
    for (const Running& r : running_) {  // nothing that a sequence holds went
      for (const auto& [key, pages] : twin_.nodes) {
        const auto table = r.pages.table(0);
        const bool holds = std::ranges::find(table, pages[0]) != table.end();
        EXPECT_TRUE(!holds || left.contains(key));
      }
    }
    twin_.nodes = std::move(left);
  }

  void compare() {
    const auto whole = c_.tree().check_integrity();
    ASSERT_TRUE(whole) << whole.error().message;
    size_t n = 0;
    c_.tree().visit(
        [&](std::string_view root, std::span<const int32_t> tokens, std::span<const PageId> pages) {
          const auto found =
              twin_.nodes.find({std::string(root), Tokens(tokens.begin(), tokens.end())});
          ASSERT_NE(found, twin_.nodes.end());
          EXPECT_TRUE(std::ranges::equal(found->second, pages));
          ++n;
        });
    EXPECT_EQ(n, twin_.nodes.size());
    EXPECT_EQ(n, c_.tree().stats().nodes);
  }

  std::mt19937 random_;
  Computer c_;
  Twin twin_;
  std::vector<Running> running_;
};

TEST(PrefixTree, AHundredThousandRandomOperationsAgreeWithTheTwin) {
  for (uint32_t seed = 1; seed <= 25 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Differential(seed).run(4000);
  }
}

}  // namespace
}  // namespace ondol::kv
