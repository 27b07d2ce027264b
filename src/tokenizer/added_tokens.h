// Thread rule: built by one thread, then read by any.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace ondol::tokenizer {

/// Tokens that are cut out of a text before anything else: of those that begin at the same place
/// the longest, and of all the leftmost. Time is linear in the text, with the longest token as the
/// largest factor.
class AddedTokens {
 public:
  struct Entry {
    std::string_view text;  ///< must outlive this
    TokenId id = -1;
    bool takes_space_before = false;  ///< white space before it belongs to it ("lstrip")
    bool takes_space_after = false;   ///< and after it ("rstrip")
  };
  struct Match {
    size_t begin = 0;  ///< without the white space that it takes
    size_t end = 0;
    const Entry* entry = nullptr;
  };

  AddedTokens() = default;
  /// Entries with an empty text are left out; of two with the same text the first stays.
  explicit AddedTokens(std::vector<Entry> entries);

  /// The first match that begins at `from` or later.
  std::optional<Match> find(std::string_view text, size_t from) const;
  size_t size() const { return entries_.size(); }

 private:
  const Entry* longest_at(std::string_view text) const;
  std::vector<Entry>
      entries_;             // sorted by text: a prefix is a range, so the array serves as a trie
  std::bitset<256> first_;  // bytes that begin an entry
  std::bitset<65536> first_two_;  // pairs that begin one (an entry of one byte sets its whole row)
};

}  // namespace ondol::tokenizer
