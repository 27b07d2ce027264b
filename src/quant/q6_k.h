// Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "quant/dot.h"

namespace ondol::quant {

/// 256 weights in 210 bytes, as 16 sub-blocks of 16:
///   w[i] = (d * scales[i / 16]) * (q[i] - 32), q in 0 .. 63.
/// In each half h of 128 weights, for l < 32:
///   low[64 h + l] holds the low four bits of q[128 h + l] and, above, of q[128 h + 64 + l];
///   low[64 h + 32 + l] those of q[128 h + 32 + l] and, above, of q[128 h + 96 + l];
///   high[32 h + l] holds the high two bits of q[128 h + 32 s + l] in bits 2 s, 2 s + 1, s = 0
///   .. 3.
struct BlockQ6_K {
  static constexpr int kValues = 256;
  uint8_t low[128];
  uint8_t high[64];
  int8_t scales[16];
  uint8_t d[2];  ///< binary16
};
static_assert(sizeof(BlockQ6_K) == 210);

void dequantize(const BlockQ6_K& block, float* out);
void quantize(const float* values, BlockQ6_K& block);

template <class V>
struct DotQ6_K {
  using Block = BlockQ6_K;
  static constexpr ActKind kActs = ActKind::kBlocks256;
  struct Weights {
    typename V::Bytes q[8];
    typename V::Factors scales[2];  ///< of sub-blocks 0 .. 7, 8 .. 15
    typename V::I16 factors;        ///< the same scales, for what q was lifted by
    typename V::F32 d;
  };

  ONDOL_VEC Weights unpack(const Block& block) {
    Weights w;
    const auto low4 = V::splat(15);
    const auto bits45 = V::splat(0x30);
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const auto first = V::load(block.low + 64 * h);
      const auto second = V::load(block.low + 64 * h + 32);
      const auto high = V::load(block.high + 32 * h);
      w.q[4 * h] = V::or_(V::and_(first, low4), V::and_(V::template shl<4>(high), bits45));
      w.q[4 * h + 1] = V::or_(V::and_(second, low4), V::and_(V::template shl<2>(high), bits45));
      w.q[4 * h + 2] = V::or_(V::template shr<4>(first), V::and_(high, bits45));
      w.q[4 * h + 3] =
          V::or_(V::template shr<4>(second), V::and_(V::template shr<2>(high), bits45));
    }
    uint64_t scales[2];
    __builtin_memcpy(scales, block.scales, 16);
    w.scales[0] = V::factors(scales[0]);
    w.scales[1] = V::factors(scales[1]);
    w.factors = V::i16_from_i8(block.scales);
    w.d = V::splat_f16(block.d);
    return w;
  }

  ONDOL_VEC void add(const Weights& w, const Acts& x, int64_t i, Sum<V>& sum) {
    const int8_t* q = x.q + 256 * i;
    auto dot = V::izero();
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      const auto scale = V::pick(w.scales[j / 4], 2 * j % 8, 2 * j % 8 + 1);
      dot = V::dot_u8_scaled(dot, w.q[j], V::load(q + 32 * j), scale);
    }
    add_scaled(sum, dot, w.d, x.scales[i]);
    const auto lifted = V::dot_i16(V::izero(), w.factors, V::load_i16(x.sums + 16 * i));
    add_scaled(sum, lifted, w.d, -32.0f * x.scales[i]);
  }
};

}  // namespace ondol::quant
