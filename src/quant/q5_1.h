// Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "quant/dot.h"

namespace ondol::quant {

/// 32 weights in 24 bytes: w[i] = d * q[i] + m, q in 0 .. 31.
/// quants[i] holds the low four bits of q[i] in its low and those of q[i + 16] in its high half.
/// The fifth bit of q[i] is bit i of `high`, read as a little-endian number.
struct BlockQ5_1 {
  static constexpr int kValues = 32;
  uint8_t d[2];  ///< binary16
  uint8_t m[2];  ///< binary16
  uint8_t high[4];
  uint8_t quants[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

void dequantize(const BlockQ5_1& block, float* out);
void quantize(const float* values, BlockQ5_1& block);

template <class V>
struct DotQ5_1 {
  using Block = BlockQ5_1;
  static constexpr ActKind kActs = ActKind::kBlocks32;
  struct Weights {
    typename V::Bytes q;
    typename V::F32 d;
    typename V::F32 m;
  };

  ONDOL_VEC Weights unpack(const Block& block) {
    const auto q = V::or_bits(V::nibbles(block.quants), block.high, 16);
    Weights w;
    w.q = q;
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
