// Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "quant/dot.h"

namespace ondol::quant {

/// 32 weights in 20 bytes: w[i] = d * q[i] + m, q in 0 .. 15.
/// quants[i] holds q[i] in its low and q[i + 16] in its high four bits.
struct BlockQ4_1 {
  static constexpr int kValues = 32;
  uint8_t d[2];  ///< binary16
  uint8_t m[2];  ///< binary16
  uint8_t quants[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

void dequantize(const BlockQ4_1& block, float* out);
void quantize(const float* values, BlockQ4_1& block);

template <class V>
struct DotQ4_1 {
  using Block = BlockQ4_1;
  static constexpr ActKind kActs = ActKind::kBlocks32;
  struct Weights {
    typename V::Bytes q;
    typename V::F32 d;
    typename V::F32 m;
  };

  ONDOL_VEC Weights unpack(const Block& block) {
    Weights w;
    w.q = V::nibbles(block.quants);
    V::scale_and_offset(block.d, w.d, w.m);
    return w;
  }

  ONDOL_VEC void add(const Weights& w, const Acts& x, int64_t i, Sum<V>& sum) {
    const auto dot = V::dot_u8(V::izero(), w.q, V::load(x.q + 32 * i));
    add_scaled(sum, dot, w.d, x.scales[i]);
    add_offset(sum, w.m, x.offsets[i]);
  }
};

}  // namespace ondol::quant
