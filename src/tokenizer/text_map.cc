#include "tokenizer/text_map.h"

#include <bit>
#include <cassert>
#include <cstring>
#include <random>

namespace ondol::tokenizer {
namespace {

__extension__ using Wide = unsigned __int128;

uint64_t mix(uint64_t a, uint64_t b) {
  const Wide product = Wide{a} * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t process_seed() {
  static const uint64_t seed = [] {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  }();
  return seed;
}

const uint64_t kSeed = process_seed();
constexpr uint64_t kOdd1 = 0x9E3779B97F4A7C15ULL;
constexpr uint64_t kOdd2 = 0xD6E8FEB86659FD93ULL;

}  // namespace

uint64_t hash_bytes(std::string_view bytes) {
  uint64_t state = kSeed ^ (bytes.size() * kOdd1);
  const char* p = bytes.data();
  size_t left = bytes.size();
  for (; left > 8; left -= 8, p += 8) {
    uint64_t word = 0;
    std::memcpy(&word, p, 8);
    state = mix(state ^ word, kOdd2);
  }
  uint64_t tail = 0;
  if (left > 0) std::memcpy(&tail, p, left);
  return mix(state ^ tail, kOdd1);
}

uint64_t hash_u64(uint64_t value) { return mix(value ^ kSeed, kOdd2); }

void TextMap::reset(std::span<const std::string_view> keys, size_t expected) {
  keys_ = keys;
  used_ = 0;
  slots_.assign(std::bit_ceil(expected * 2 + 2), {});
}

bool TextMap::insert(TokenId id) {
  assert(used_ * 2 < slots_.size());
  const std::string_view text = keys_[static_cast<size_t>(id)];
  const uint64_t hash = hash_bytes(text);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    if (slots_[at].id < 0) {
      slots_[at] = {.tag = tag, .id = id};
      ++used_;
      return true;
    }
    if (slots_[at].tag == tag && keys_[static_cast<size_t>(slots_[at].id)] == text) return false;
  }
}

void TextMap::fetch_key(uint64_t hash) const {
  const TokenId id = slots_[hash & (slots_.size() - 1)].id;
  if (id >= 0) __builtin_prefetch(&keys_[static_cast<size_t>(id)]);
}

void TextMap::fetch_text(uint64_t hash) const {
  const TokenId id = slots_[hash & (slots_.size() - 1)].id;
  if (id >= 0) __builtin_prefetch(keys_[static_cast<size_t>(id)].data());
}

TokenId TextMap::find(std::string_view text, uint64_t hash) const {
  if (slots_.empty()) return -1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot slot = slots_[at];
    if (slot.id < 0) return -1;
    if (slot.tag == tag && keys_[static_cast<size_t>(slot.id)] == text) return slot.id;
  }
}

void MergeMap::reset(size_t expected) { slots_.assign(std::bit_ceil(expected * 2 + 2), {}); }

void MergeMap::insert(TokenId left, TokenId right, Merge merge) {
  const uint64_t pair = key(left, right);
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash_u64(pair) & mask;; at = (at + 1) & mask) {
    if (slots_[at].pair == pair) return;
    if (slots_[at].pair == UINT64_MAX) {
      slots_[at] = {.pair = pair, .merge = merge};
      return;
    }
  }
}

MergeMap::Merge MergeMap::find(TokenId left, TokenId right) const {
  const uint64_t pair = key(left, right);
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash_u64(pair) & mask;; at = (at + 1) & mask) {
    if (slots_[at].pair == pair) return slots_[at].merge;
    if (slots_[at].pair == UINT64_MAX) return {};
  }
}

}  // namespace ondol::tokenizer
