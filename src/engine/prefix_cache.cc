#include "engine/prefix_cache.h"

#include <cassert>
#include <utility>
#include <vector>

namespace ondol::engine {
namespace {

/// At least one token is computed: its logits are wanted.
std::span<const int32_t> all_but_last(std::span<const int32_t> tokens) {
  return tokens.first(tokens.size() - 1);
}

}  // namespace

kv::Match PrefixCache::look(std::string_view root, std::span<const int32_t> tokens) const {
  return tree_.lookup(root, all_but_last(tokens));
}

PrefixCache::Taken PrefixCache::take(std::string_view root, std::span<const int32_t> tokens) {
  const kv::Match match = look(root, tokens);
  kv::Match usable = match;
  if (match.n_tokens % kPageTokens != 0) {
    const auto whole = static_cast<size_t>(match.n_tokens / kPageTokens);
    kv::SequencePages pages = runner_.new_sequence();
    pages.adopt(match.tables);  // holds them while others may be evicted
    if (copy_last(pages, whole)) {
      tree_.touch(root, tokens.first(static_cast<size_t>(match.n_tokens)));
      return {.pages = std::move(pages), .n_tokens = match.n_tokens, .match = match};
    }
    usable = tree_.lookup(root, tokens.first(whole * kPageTokens));
    assert(usable.n_tokens % kPageTokens == 0);
  }
  kv::SequencePages pages = runner_.new_sequence();
  pages.adopt(usable.tables);
  tree_.touch(root, tokens.first(static_cast<size_t>(usable.n_tokens)));
  return {.pages = std::move(pages), .n_tokens = usable.n_tokens, .match = match};
}

/// Gives the sequence copies of its pages at `index`; false where there is no room for them.
bool PrefixCache::copy_last(kv::SequencePages& pages, size_t index) {
  const auto groups = runner_.groups();
  const std::vector<uint32_t> one(groups.size(), 1);
  if (!make_room(one)) return false;
  for (size_t g = 0; g < groups.size(); ++g) {
    const kv::PageId from = pages.table(static_cast<int>(g))[index];
    if (from == kv::kNoPage) continue;
    const kv::PageId copy = *groups[g].pool.allocate();
    runner_.copy_page(static_cast<int>(g), from, copy);
    pages.replace(static_cast<int>(g), index, copy);
    groups[g].pool.release(copy);  // the sequence holds it now
  }
  return true;
}

void PrefixCache::publish(std::string_view root, std::span<const int32_t> tokens,
                          kv::SequencePages& pages, bool ends) {
  std::vector<std::span<const kv::PageId>> tables;
  for (size_t g = 0; g < runner_.groups().size(); ++g)
    tables.push_back(pages.table(static_cast<int>(g)));
  for (const kv::Duplicate& twin : tree_.insert(root, tokens, tables, ends))
    pages.replace(twin.group, twin.index, twin.page);
}

bool PrefixCache::make_room(std::span<const uint32_t> n_free) { return tree_.evict(n_free); }

bool PrefixCache::has_room(std::span<const uint32_t> n_free) const {
  const auto groups = runner_.groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    const uint32_t free = groups[g].pool.n_free();
    if (free < n_free[g] && free + tree_.evictable(static_cast<int>(g)) < n_free[g]) return false;
  }
  return true;
}

}  // namespace ondol::engine
