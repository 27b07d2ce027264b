// Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "quant/dot.h"

namespace ondol::quant {

/// 256 weights in 292 bytes: w[i] = d * quants[i].
/// sums[j] = quants[16 j] + ... + quants[16 j + 15], for products with formats that have a minimum.
struct BlockQ8_K {
  static constexpr int kValues = 256;
  uint8_t d[4];  ///< binary32
  int8_t quants[256];
  uint8_t sums[16][2];  ///< int16
};
static_assert(sizeof(BlockQ8_K) == 292);

void dequantize(const BlockQ8_K& block, float* out);
void quantize(const float* values, BlockQ8_K& block);

template <class V>
struct DotQ8_K {
  using Block = BlockQ8_K;
  static constexpr ActKind kActs = ActKind::kBlocks256;
  struct Weights {
    typename V::Bytes q[8];
    typename V::F32 d;
  };

  ONDOL_VEC Weights unpack(const Block& block) {
    Weights w;
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) w.q[j] = V::load(block.quants + 32 * j);
    float d;
    __builtin_memcpy(&d, block.d, 4);
    w.d = V::splat_f(d);
    return w;
  }

  ONDOL_VEC void add(const Weights& w, const Acts& x, int64_t i, Sum<V>& sum) {
    const int8_t* q = x.q + 256 * i;
    auto dot = V::izero();
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) dot = V::dot_i8(dot, w.q[j], V::load(q + 32 * j));
    add_scaled(sum, dot, w.d, x.scales[i]);
  }
};

}  // namespace ondol::quant
