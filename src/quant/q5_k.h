// Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "quant/dot.h"
#include "quant/k_scales.h"

namespace ondol::quant {

/// 256 weights in 176 bytes, as 8 sub-blocks of 32:
///   w[i] = (d * scale[i / 32]) * q[i] - dmin * min[i / 32], q in 0 .. 31.
/// quants[32 g + l], g = 0 .. 3, l < 32, holds the low four bits of q[64 g + l] in its low and
/// those of q[64 g + 32 + l] in its high half. The fifth bit of q[32 j + l], j = 0 .. 7, is bit j
/// of high[l].
struct BlockQ5_K {
  static constexpr int kValues = 256;
  uint8_t d[2];     ///< binary16
  uint8_t dmin[2];  ///< binary16
  KScales scales;
  uint8_t high[32];
  uint8_t quants[128];
};
static_assert(sizeof(BlockQ5_K) == 176);

void dequantize(const BlockQ5_K& block, float* out);
void quantize(const float* values, BlockQ5_K& block);

template <class V>
struct DotQ5_K {
  using Block = BlockQ5_K;
  static constexpr ActKind kActs = ActKind::kBlocks256;
  struct Weights {
    typename V::Bytes q[8];
    typename V::Factors scales;
    typename V::I16 mins;  ///< of each 16 values
    typename V::F32 d;
    typename V::F32 dmin;
  };

  ONDOL_VEC Weights unpack(const Block& block) {
    Weights w;
    const auto high = V::load(block.high);
    const auto bit4 = V::splat(16);
    w.q[0] = V::and_(V::template shl<4>(high), bit4);
    w.q[1] = V::and_(V::template shl<3>(high), bit4);
    w.q[2] = V::and_(V::template shl<2>(high), bit4);
    w.q[3] = V::and_(V::template shl<1>(high), bit4);
    w.q[4] = V::and_(high, bit4);
    w.q[5] = V::and_(V::template shr<1>(high), bit4);
    w.q[6] = V::and_(V::template shr<2>(high), bit4);
    w.q[7] = V::and_(V::template shr<3>(high), bit4);
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
      const auto packed = V::load(block.quants + 32 * g);
      w.q[2 * g] = V::or_(w.q[2 * g], V::and_(packed, V::splat(15)));
      w.q[2 * g + 1] = V::or_(w.q[2 * g + 1], V::template shr<4>(packed));
    }
    uint64_t scales;
    uint64_t mins;
    block.scales.unpack(scales, mins);
    w.scales = V::factors(scales);
    w.mins = V::i16_twice_from_i8(&mins);
    w.d = V::splat_f16(block.d);
    w.dmin = V::splat_f16(block.dmin);
    return w;
  }

  ONDOL_VEC void add(const Weights& w, const Acts& x, int64_t i, Sum<V>& sum) {
    const int8_t* q = x.q + 256 * i;
    auto dot = V::izero();
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      dot = V::dot_u8_scaled(dot, w.q[j], V::load(q + 32 * j), V::pick(w.scales, j, j));
    }
    add_scaled(sum, dot, w.d, x.scales[i]);
    const auto below = V::dot_i16(V::izero(), w.mins, V::load_i16(x.sums + 16 * i));
    add_scaled(sum, below, w.dmin, -x.scales[i]);
  }
};

}  // namespace ondol::quant
