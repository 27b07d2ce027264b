// Thread rule: plain data. Filled by the engine, read (and the pages written) by the kernels during
// one forward pass.
//
// The one place where the model and the KV cache meet: neither knows the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ondol {

inline constexpr int kPageTokens = 16;  ///< tokens in a page of KV
inline constexpr uint32_t kNoPage = UINT32_MAX;

enum class KvType : uint8_t { kF16, kQ8_0, kF32 };

/// Where one layer's keys and values lie within a page of its group, in the order that the kernels
/// read them. Heads follow each other, n_head_kv at k_offset, n_head_kv at v_offset; a head takes
/// kPageTokens * kv_row_bytes().
/// Keys, dimension by dimension: [head_dim_k][kPageTokens]. q8_0, for each 32 dimensions: a f16
/// scale per token, then int8 [8][kPageTokens][4].
/// Values, token by token: [kPageTokens][head_dim_v]. q8_0: f16 scales [head_dim_v /
/// 32][kPageTokens], then int8 [kPageTokens][head_dim_v]. A token's numbers depend on that token
/// alone, whatever was in the page before.
struct KvLayer {
  int group = 0;
  size_t k_offset = 0;  ///< bytes from the start of the page
  size_t v_offset = 0;
  int n_head_kv = 0;
  int head_dim_k = 0;
  int head_dim_v = 0;
};

/// Layers that share a cache kind (full attention, sliding window) and so a page table.
struct KvGroup {
  std::byte* base = nullptr;  ///< page p of the group starts at base + p * page_bytes
  size_t page_bytes = 0;
};

/// One sequence's part of a batch: rows [first_row, first_row + n_rows) hold its positions
/// [first_pos, first_pos + n_rows).
struct KvSequence {
  int first_row = 0;
  int n_rows = 0;
  int first_pos = 0;
  /// Per group: page id of positions [16 i, 16 i + 16) at index i; kNoPage where a window has moved
  /// on.
  std::span<const std::span<const uint32_t>> page_tables;
};

/// The KV cache as the kernels see it in one forward pass.
struct KvView {
  KvType type_k = KvType::kF16;
  KvType type_v = KvType::kF16;
  std::span<const KvGroup> groups;
  std::span<const KvLayer> layers;
  std::span<const KvSequence> sequences;
};

/// Bytes of one head's key (or value) row of one token.
constexpr size_t kv_row_bytes(KvType type, int head_dim) {
  switch (type) {
    case KvType::kF16:
      return static_cast<size_t>(head_dim) * 2;
    case KvType::kQ8_0:
      return static_cast<size_t>(head_dim) / 32 * 34;
    case KvType::kF32:
      return static_cast<size_t>(head_dim) * 4;
  }
  return 0;
}

}  // namespace ondol
