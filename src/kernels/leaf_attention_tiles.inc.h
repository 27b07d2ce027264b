// Thread rule: pure functions. Part of leaf.inc.h: the two products of attention, queries with keys
// and weights with values, as tiles of registers.
//
// Scores: the lanes are keys, as pages hold them. Each score is one chain of multiply-adds over the
// dimensions, so it does not matter which queries and pages share a tile. Values: the lanes are
// dimensions; each output is one chain over the positions in order.

#include <cstdint>
#include <cstring>

#include "kernels/leaf.h"
#include "kernels/leaf_kv.inc.h"
#include "simd/wide.h"

namespace ondol::kernels {
namespace {

using simd::Wide;

constexpr int kLanes = Wide::kLanes;
/// Queries and vectors of a tile: as many sums as the machine has registers for, in a shape that
/// needs few loads for each multiply-add.
constexpr int kTileQ = kLanes == 16 ? 12 : 6;
constexpr int kTileV = kLanes == 4 ? 4 : 2;
constexpr int kPageVectors = kPageTokens / kLanes;
/// Few queries take more vectors: a multiply-add must not wait for the one before it.
constexpr int tile_vectors(int queries) { return queries <= 3 ? 2 * kTileV : kTileV; }

template <int N>
struct Count {
  static constexpr int value = N;
};
/// The next tile's queries when n are left.
ONDOL_VEC int tile_queries(int n) {
  if (n >= kTileQ) return kTileQ;
  return n >= 8 ? 8 : n >= 6 ? 6 : n >= 4 ? 4 : n;
}
/// f(Count<n>) for a number of queries that tile_queries() gave.
template <class F>
ONDOL_VEC void with_count(int n, F f) {
  if constexpr (kTileQ > 8) {
    if (n == kTileQ) return f(Count<kTileQ>{});
    if (n == 8) return f(Count<8>{});
  }
  switch (n) {
    case 6:
      return f(Count<6>{});
    case 4:
      return f(Count<4>{});
    case 3:
      return f(Count<3>{});
    case 2:
      return f(Count<2>{});
    default:
      return f(Count<1>{});
  }
}

constexpr int round16(int n) { return (n + 15) / 16 * 16; }

/// What a tile's queries are multiplied from: for each step over the dimensions the numbers of all
/// its queries side by side. With q8_0 keys they are 16-bit codes, so that products are exact
/// integers: (0, 2) and (1, 3) of four neighbours, as the codes of a key are unpacked.
ONDOL_VEC void pack_codes(const float* x, int dim, float* out, int step, float* factor) {
  auto m = Wide::fzero();
  for (int i = 0; i < dim; i += kLanes) m = Wide::fmax(m, Wide::fabs(Wide::fload(x + i)));
  const float largest_value = Wide::reduce_max(m);
  const bool zero = !(largest_value > 1e-30f);
  const auto f = Wide::splat_f(zero ? 0.0f : 32767.0f / largest_value);
  *factor = zero ? largest_value : largest_value / 32767.0f;
  int32_t codes[16];
  for (int i = 0; i < dim; i += 16) {
    for (int j = 0; j < 16; j += kLanes)
      Wide::istore(codes + j, Wide::to_i32(Wide::fmul(Wide::fload(x + i + j), f)));
    for (int j = 0; j < 16; j += 2) {
      const int first = j / 4 * 4 + j / 2 % 2;
      const int16_t pair[2] = {static_cast<int16_t>(codes[first]),
                               static_cast<int16_t>(codes[first + 2])};
      std::memcpy(out + (i + j) / 2 * step, pair, sizeof pair);
    }
  }
}

void pack_queries(KvType type, const float* const* q, int n, int dim, float* packed) {
  float* factors = packed + static_cast<int64_t>(n) * dim;
  for (int first = 0; first < n;) {
    const int count = tile_queries(n - first);
    float* tile = packed + static_cast<int64_t>(first) * dim;
    for (int j = 0; j < count; ++j) {
      const float* x = q[first + j];
      if (type == KvType::kQ8_0) {
        pack_codes(x, dim, tile + j, count, factors + first + j);
        continue;
      }
      factors[first + j] = 1.0f;
      for (int i = 0; i < dim; ++i) tile[i * count + j] = x[i];
    }
    first += count;
  }
}

template <KvType kType>
ONDOL_VEC Wide::F32 load_lanes(const uint8_t* p) {
  if constexpr (kType == KvType::kF16) return Wide::load_f16(p);
  if constexpr (kType == KvType::kQ8_0) return Wide::load_i8(p);
  return Wide::fload(reinterpret_cast<const float*>(p));
}
constexpr int value_bytes(KvType type) {
  return type == KvType::kF16 ? 2 : type == KvType::kQ8_0 ? 1 : 4;
}

/// sums[j][v] = sum over the dimensions of query j with key lanes v, keys of floats.
template <KvType kType, int Q, int V>
ONDOL_VEC void multiply_keys(const uint8_t* const* pages, const float* q, int dim,
                             Wide::F32 (&sums)[Q][V]) {
  constexpr int kBytes = value_bytes(kType);
  for (int i = 0; i < dim; ++i, q += Q) {
    Wide::F32 keys[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      keys[v] = load_lanes<kType>(pages[v / kPageVectors] +
                                  (i * kPageTokens + v % kPageVectors * kLanes) * kBytes);
#pragma GCC unroll 12
    for (int j = 0; j < Q; ++j) {
      const auto x = Wide::splat_f(q[j]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sums[j][v] = Wide::fma(x, keys[v], sums[j][v]);
    }
  }
}

/// The same with q8_0 keys: exact integers within 32 dimensions.
template <int Q, int V>
ONDOL_VEC void multiply_key_codes(const uint8_t* const* pages, const int16_t* q, int dim,
                                  Wide::F32 (&sums)[Q][V]) {
  for (int block = 0; block < dim / 32; ++block) {
    Wide::I32 dots[Q][V];
#pragma GCC unroll 12
    for (int j = 0; j < Q; ++j) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) dots[j][v] = Wide::izero();
    }
    const int offset = block * kQ8KeyBlock + 2 * kPageTokens;
    for (int i = 0; i < 32; i += 4, q += 4 * Q) {
      Wide::I32 even[V], odd[V];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        const uint8_t* p =
            pages[v / kPageVectors] + offset + i * kPageTokens + v % kPageVectors * kLanes * 4;
        const auto codes = Wide::iload(reinterpret_cast<const int32_t*>(p));
        even[v] = Wide::even_bytes(codes);
        odd[v] = Wide::odd_bytes(codes);
      }
#pragma GCC unroll 12
      for (int j = 0; j < Q; ++j) {
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) dots[j][v] = Wide::dot_i16(dots[j][v], even[v], q + 2 * j);
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) dots[j][v] = Wide::dot_i16(dots[j][v], odd[v], q + 2 * (Q + j));
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const auto scale = Wide::load_f16(pages[v / kPageVectors] + block * kQ8KeyBlock +
                                        v % kPageVectors * kLanes * 2);
#pragma GCC unroll 12
      for (int j = 0; j < Q; ++j)
        sums[j][v] = Wide::fma(Wide::to_f32(dots[j][v]), scale, sums[j][v]);
    }
  }
}

/// scores[j * kChunkTokens + ...] of Q queries with the keys of neighbouring pages.
template <KvType kType, int Q, int V>
void score_tile(const uint8_t* const* pages, const float* q, int dim, float* scores) {
  Wide::F32 sums[Q][V];
#pragma GCC unroll 12
  for (int j = 0; j < Q; ++j) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sums[j][v] = Wide::fzero();
  }
  if constexpr (kType == KvType::kQ8_0)
    multiply_key_codes<Q, V>(pages, reinterpret_cast<const int16_t*>(q), dim, sums);
  else
    multiply_keys<kType, Q, V>(pages, q, dim, sums);
#pragma GCC unroll 12
  for (int j = 0; j < Q; ++j) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) Wide::fstore(scores + j * kChunkTokens + v * kLanes, sums[j][v]);
  }
}

/// Rows of values, `stride` bytes apart, and the weights of some queries for them.
struct ValueRows {
  const uint8_t* const* pages;  ///< each kPageTokens rows
  int first, end;               ///< rows of the pages that count
  int64_t stride;
  const float* weights;  ///< [queries][kChunkTokens]; row 0 of the first page first
};

/// acc[j][...] += the weighted rows, V vectors of dimensions for Q queries.
template <KvType kType, int Q, int V>
ONDOL_VEC void value_tile(const ValueRows& r, int64_t column, float* acc, int64_t acc_stride) {
  Wide::F32 sums[Q][V];
#pragma GCC unroll 12
  for (int j = 0; j < Q; ++j) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sums[j][v] = Wide::fload(acc + j * acc_stride + v * kLanes);
  }
  for (int row = r.first; row < r.end;) {
    const uint8_t* p =
        r.pages[row / kPageTokens] + row % kPageTokens * r.stride + column * value_bytes(kType);
    const int page_end = (row / kPageTokens + 1) * kPageTokens;
    const int end = page_end < r.end ? page_end : r.end;
    for (; row < end; ++row, p += r.stride) {
      Wide::F32 values[V];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v)
        values[v] = load_lanes<kType>(p + v * kLanes * value_bytes(kType));
#pragma GCC unroll 12
      for (int j = 0; j < Q; ++j) {
        const auto w = Wide::splat_f(r.weights[j * kChunkTokens + row]);
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) sums[j][v] = Wide::fma(w, values[v], sums[j][v]);
      }
    }
  }
#pragma GCC unroll 12
  for (int j = 0; j < Q; ++j) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) Wide::fstore(acc + j * acc_stride + v * kLanes, sums[j][v]);
  }
}

/// Columns [first, first + n) of acc, n a multiple of the lanes.
template <KvType kType, int Q>
void value_columns(const ValueRows& rows, int first, int n, float* acc, int64_t acc_stride) {
  constexpr int kVectors = tile_vectors(Q);
  const int end = first + n;
  int i = first;
  for (; i + kVectors * kLanes <= end; i += kVectors * kLanes)
    value_tile<kType, Q, kVectors>(rows, i, acc + i, acc_stride);
  if constexpr (kVectors > kTileV) {
    for (; i + kTileV * kLanes <= end; i += kTileV * kLanes)
      value_tile<kType, Q, kTileV>(rows, i, acc + i, acc_stride);
  }
  for (; i < end; i += kLanes) value_tile<kType, Q, 1>(rows, i, acc + i, acc_stride);
}

/// A page's keys as floats.
template <KvType kType>
ONDOL_VEC void unpack_keys(const uint8_t* page, int dim, float* out) {
  for (int i = 0; i < dim * kPageTokens; i += kLanes)
    Wide::fstore(out + i, load_lanes<kType>(page + i * value_bytes(kType)));
}

/// Rows of values as floats (of q8_0: the codes), each filled up with zeros to `width`.
template <KvType kType>
ONDOL_VEC void unpack_values(const uint8_t* rows, int n, int dim, int width, float* out) {
  constexpr int kBytes = value_bytes(kType);
  for (int row = 0; row < n; ++row, rows += dim * kBytes, out += width) {
    int i = 0;
    for (; i + kLanes <= dim; i += kLanes)
      Wide::fstore(out + i, load_lanes<kType>(rows + i * kBytes));
    for (; i < width; i += kLanes) {
      uint8_t last[kLanes * kBytes] = {};
      if (i < dim) std::memcpy(last, rows + i * kBytes, static_cast<size_t>(dim - i) * kBytes);
      Wide::fstore(out + i, load_lanes<kType>(last));
    }
  }
}

}  // namespace
}  // namespace ondol::kernels
