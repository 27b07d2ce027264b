// Thread rule: pure functions.
//
// How large the KV cache is: the one place, used by the page pool, the planner and the metrics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ondol::kv {

/// How a value of the cache is stored: `block_bytes` bytes for `block_values` values (f16: 2 for 1;
/// q8_0: 34 for 32).
struct ElementType {
  uint32_t block_values = 1;
  uint32_t block_bytes = 2;
  /// Bytes of n values; n is a multiple of block_values.
  constexpr uint64_t bytes(uint64_t n) const { return n / block_values * block_bytes; }
};

/// One attention layer's share of the cache.
struct LayerShape {
  int n_head_kv = 0;
  int head_dim_k = 0;
  int head_dim_v = 0;
};

/// Layers that share a page table: all of full attention, or all of one sliding window.
struct GroupShape {
  int window = 0;  ///< tokens that stay readable; 0: all
  std::vector<LayerShape> layers;
};

/// Bytes that one token takes in one layer, keys and values.
uint64_t bytes_per_token(const LayerShape& layer, ElementType k, ElementType v);
/// Bytes that one token takes in all layers of a group.
uint64_t bytes_per_token(const GroupShape& group, ElementType k, ElementType v);

/// Pages that a sequence of n_tokens holds in a group at most; a window keeps its own tokens, those
/// of one pass of `chunk` new ones, and the pages that both ends only partly fill.
uint64_t pages_for(const GroupShape& group, uint64_t n_tokens, uint64_t page_tokens,
                   uint64_t chunk);

}  // namespace ondol::kv
