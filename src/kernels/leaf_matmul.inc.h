// Thread rule: pure functions. Part of leaf.inc.h: the quantisation of activations and the matrix
// products.

#include <cstdint>
#include <cstring>

#include "kernels/leaf.h"
#include "quant/dot.h"

namespace ondol::kernels {
namespace {

using quant::Acts;
using quant::Sum;
using simd::Vec;

ONDOL_VEC float largest(const float* x, int n) {
  auto m = Vec::fzero();
  for (int i = 0; i < n; i += 8) m = Vec::fmax(m, Vec::fabs(Vec::fload(x + i)));
  return Vec::reduce_max(m);
}

/// q = x / step for 32 values; writes their two sums and returns the sum of both.
ONDOL_VEC int quantize_values(const float* x, float inverse, int8_t* q, int16_t* sums) {
  const auto f = Vec::splat_f(inverse);
  const auto bytes =
      Vec::quantized(Vec::fmul(Vec::fload(x), f), Vec::fmul(Vec::fload(x + 8), f),
                     Vec::fmul(Vec::fload(x + 16), f), Vec::fmul(Vec::fload(x + 24), f));
  Vec::store(q, bytes);
  int32_t parts[8];
  Vec::istore(parts, Vec::dot_u8(Vec::izero(), Vec::splat(1), bytes));
  const int lo = (parts[0] + parts[1]) + (parts[2] + parts[3]);
  const int hi = (parts[4] + parts[5]) + (parts[6] + parts[7]);
  sums[0] = static_cast<int16_t>(lo);
  sums[1] = static_cast<int16_t>(hi);
  return lo + hi;
}

/// Below this a block counts as zero: 127 / largest would no longer be a float.
constexpr float kSmallest = 1e-36f;

void quantize32(const float* x, int64_t n, const ActsOut& out) {
  for (int64_t i = 0; i < n / 32; ++i) {
    const float m = largest(x + 32 * i, 32);
    const float step = m < kSmallest ? 0.0f : m / 127.0f;
    const float inverse = m < kSmallest ? 0.0f : 127.0f / m;
    const int sum = quantize_values(x + 32 * i, inverse, out.q + 32 * i, out.sums + 2 * i);
    out.scales[i] = step;
    out.offsets[i] = step * static_cast<float>(sum);
  }
}

void quantize256(const float* x, int64_t n, const ActsOut& out) {
  for (int64_t i = 0; i < n / 256; ++i) {
    const float m = largest(x + 256 * i, 256);
    const float inverse = m < kSmallest ? 0.0f : 127.0f / m;
    for (int64_t j = 8 * i; j < 8 * i + 8; ++j) {
      quantize_values(x + 32 * j, inverse, out.q + 32 * j, out.sums + 2 * j);
    }
    out.scales[i] = m < kSmallest ? 0.0f : m / 127.0f;
  }
}

ONDOL_VEC void put_result(const MatmulTask& t, int64_t row, int column, float value) {
  t.out[column * t.out_stride + row] = t.bias != nullptr ? value + t.bias[row] : value;
}

template <class Dot>
constexpr int64_t block_values() {
  return Dot::kActs == quant::ActKind::kBlocks32 ? 32 : 256;
}

/// Asks for the cache lines of the block that is `distance` bytes further on. With one column the
/// memory decides, and the processor's own prefetchers stop at every page.
template <class Block>
ONDOL_VEC void fetch_ahead(const Block& block, size_t distance) {
  const auto* ahead = reinterpret_cast<const char*>(&block) + distance;
#pragma GCC unroll 4
  for (size_t line = 0; line < sizeof(Block); line += 64) __builtin_prefetch(ahead + line);
}

/// R rows times C columns of a format with blocks: each block is unpacked once.
template <class Dot, int R, int C>
ONDOL_VEC void block_tile(const MatmulTask& t, int64_t row, int column) {
  using Block = typename Dot::Block;
  const Block* weights[R];
  for (int r = 0; r < R; ++r) {
    weights[r] =
        reinterpret_cast<const Block*>(t.weights + static_cast<size_t>(row + r) * t.row_bytes);
  }
  Sum<Vec> sums[R][C];
  const int64_t n_blocks = t.n_values / block_values<Dot>();
  for (int64_t i = 0; i < n_blocks; ++i) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      if constexpr (C == 1) fetch_ahead(weights[r][i], R * t.row_bytes);
      const auto w = Dot::unpack(weights[r][i]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) Dot::add(w, t.columns[column + c].acts, i, sums[r][c]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) put_result(t, row + r, column + c, Vec::reduce(sums[r][c].lanes));
  }
}

/// The same for weights that are floats; the last values of a row fill a vector up with zeros.
template <class Dot, int R, int C>
ONDOL_VEC void float_tile(const MatmulTask& t, int64_t row, int column) {
  const uint8_t* weights[R];
  for (int r = 0; r < R; ++r) weights[r] = t.weights + static_cast<size_t>(row + r) * t.row_bytes;
  Vec::F32 sums[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) sums[r][c] = Vec::fzero();
  }
  int64_t i = 0;
  for (; i + 8 <= t.n_values; i += 8) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const auto w = Dot::load(weights[r] + i * Dot::kBytes);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c)
        sums[r][c] = Vec::fma(w, Vec::fload(t.columns[column + c].x + i), sums[r][c]);
    }
  }
  const int left = static_cast<int>(t.n_values - i);
  for (int r = 0; r < R; ++r) {
    uint8_t last[32] = {};
    std::memcpy(last, weights[r] + i * Dot::kBytes, static_cast<size_t>(left) * Dot::kBytes);
    for (int c = 0; c < C; ++c) {
      auto sum = sums[r][c];
      if (left != 0)
        sum = Vec::fma(Dot::load(last), Vec::fload_n(t.columns[column + c].x + i, left), sum);
      put_result(t, row + r, column + c, Vec::reduce(sum));
    }
  }
}

template <class Dot, int R, int C>
ONDOL_VEC void tile(const MatmulTask& t, int64_t row, int column) {
  if constexpr (Dot::kActs == quant::ActKind::kFloat) {
    float_tile<Dot, R, C>(t, row, column);
  } else {
    block_tile<Dot, R, C>(t, row, column);
  }
}

/// All rows of the task times C columns, R rows at a time.
template <class Dot, int R, int C>
void all_rows(const MatmulTask& t, int column) {
  int64_t row = 0;
  for (; row + R <= t.n_rows; row += R) tile<Dot, R, C>(t, row, column);
  if constexpr (R > 1) {
    for (; row < t.n_rows; ++row) tile<Dot, 1, C>(t, row, column);
  }
}

template <class Dot>
void matmul(const MatmulTask& t) {
  int column = 0;
  for (; column + 8 <= t.n_columns; column += 8) all_rows<Dot, 1, 8>(t, column);
  for (; column + 4 <= t.n_columns; column += 4) all_rows<Dot, 1, 4>(t, column);
  for (; column + 2 <= t.n_columns; column += 2) all_rows<Dot, 2, 2>(t, column);
  for (; column < t.n_columns; ++column) all_rows<Dot, 4, 1>(t, column);
}

}  // namespace
}  // namespace ondol::kernels
