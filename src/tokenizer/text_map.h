// Thread rule: filled by one thread, then read by any.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace ondol::tokenizer {

/// A hash of bytes, seeded once per process so that a file cannot be made to collide.
uint64_t hash_bytes(std::string_view bytes);
uint64_t hash_u64(uint64_t value);

/// From a text to the token that it is. The texts lie elsewhere (in the mapped file or one arena);
/// the map holds eight bytes a slot.
class TextMap {
 public:
  /// `keys[id]` is the text of token id and must outlive the map.
  void reset(std::span<const std::string_view> keys, size_t expected);
  /// Adds token `id`; of two tokens with the same text the first stays, and the second gets false.
  bool insert(TokenId id);
  /// The token with this text, or -1.
  TokenId find(std::string_view text) const { return find(text, hash_bytes(text)); }
  TokenId find(std::string_view text, uint64_t hash) const;

  // For many look-ups at once: each step asks the memory for what the next one reads.
  void fetch_slot(uint64_t hash) const { __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]); }
  void fetch_key(uint64_t hash) const;
  void fetch_text(uint64_t hash) const;

 private:
  struct Slot {
    uint32_t tag = 0;
    int32_t id = -1;
  };
  std::span<const std::string_view> keys_;
  std::vector<Slot> slots_;
  size_t used_ = 0;
};

/// From two neighbouring tokens to the rule that merges them.
class MergeMap {
 public:
  struct Merge {
    uint32_t rank = UINT32_MAX;  ///< UINT32_MAX: no rule
    TokenId result = -1;
  };
  void reset(size_t expected);
  /// Of two rules for the same pair the first stays.
  void insert(TokenId left, TokenId right, Merge merge);
  Merge find(TokenId left, TokenId right) const;
  void fetch_slot(TokenId left, TokenId right) const {
    __builtin_prefetch(&slots_[hash_u64(key(left, right)) & (slots_.size() - 1)]);
  }

 private:
  struct Slot {
    uint64_t pair = UINT64_MAX;
    Merge merge;
  };
  static uint64_t key(TokenId left, TokenId right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  std::vector<Slot> slots_;
};

}  // namespace ondol::tokenizer
