// Thread rule: as Engine.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "engine/runner.h"
#include "kv/prefix_tree.h"

namespace ondol::engine {

/// The prefix tree over a runner's pages: the part that copies bytes and moves pages between
/// sequences and tree. Tokens are those of one sequence from its start.
class PrefixCache {
 public:
  /// `runner` must outlive the cache.
  explicit PrefixCache(Runner& runner) : runner_(runner), tree_(runner.groups(), kPageTokens) {}

  /// A sequence that begins with what is known of `tokens`.
  struct Taken {
    kv::SequencePages pages;
    int n_tokens = 0;  ///< computed already, less than tokens.size()
    kv::Match match;   ///< what the tree said
  };
  /// Whole pages are shared; one that is used in part is copied, if a page can be had for it.
  Taken take(std::string_view root, std::span<const int32_t> tokens);
  /// What take() would find, the pages aside.
  kv::Match look(std::string_view root, std::span<const int32_t> tokens) const;
  /// Makes the computed `tokens` of a sequence known. Where they end inside a page, nobody may
  /// write to it any more. `ends` as in PrefixTree::insert.
  void publish(std::string_view root, std::span<const int32_t> tokens, kv::SequencePages& pages,
               bool ends);
  /// Whether each pool has so many free pages, after letting go of what is worth least.
  bool make_room(std::span<const uint32_t> n_free);
  /// Whether make_room() would succeed; changes nothing.
  bool has_room(std::span<const uint32_t> n_free) const;

  kv::PrefixTree& tree() { return tree_; }
  const kv::PrefixTree& tree() const { return tree_; }

 private:
  bool copy_last(kv::SequencePages& pages, size_t index);

  Runner& runner_;
  kv::PrefixTree tree_;
};

}  // namespace ondol::engine
