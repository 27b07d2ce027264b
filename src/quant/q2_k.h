// Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "quant/dot.h"

namespace ondol::quant {

/// 256 weights in 84 bytes, as 16 sub-blocks of 16:
///   w[i] = (d * scale[i / 16]) * q[i] - dmin * min[i / 16], q in 0 .. 3.
/// scales[j] holds scale[j] in its low and min[j] in its high four bits.
/// quants[32 h + l], h = 0, 1, l < 32, holds q[128 h + 32 s + l] in bits 2 s, 2 s + 1, s = 0 .. 3.
struct BlockQ2_K {
  static constexpr int kValues = 256;
  uint8_t scales[16];
  uint8_t quants[64];
  uint8_t d[2];     ///< binary16
  uint8_t dmin[2];  ///< binary16
};
static_assert(sizeof(BlockQ2_K) == 84);

void dequantize(const BlockQ2_K& block, float* out);
void quantize(const float* values, BlockQ2_K& block);

template <class V>
struct DotQ2_K {
  using Block = BlockQ2_K;
  static constexpr ActKind kActs = ActKind::kBlocks256;
  struct Weights {
    typename V::Bytes q[8];
    typename V::Factors scales[2];  ///< of sub-blocks 0 .. 7, 8 .. 15
    typename V::I16 mins;           ///< of each 16 values
    typename V::F32 d;
    typename V::F32 dmin;
  };

  ONDOL_VEC Weights unpack(const Block& block) {
    Weights w;
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const auto packed = V::load(block.quants + 32 * h);
      const auto low = V::splat(3);
      w.q[4 * h] = V::and_(packed, low);
      w.q[4 * h + 1] = V::and_(V::template shr<2>(packed), low);
      w.q[4 * h + 2] = V::and_(V::template shr<4>(packed), low);
      w.q[4 * h + 3] = V::template shr<6>(packed);
    }
    uint64_t packed[2];
    __builtin_memcpy(packed, block.scales, 16);
    constexpr uint64_t kNibbles = 0x0f0f0f0f0f0f0f0f;
    w.scales[0] = V::factors(packed[0] & kNibbles);
    w.scales[1] = V::factors(packed[1] & kNibbles);
    const uint64_t mins[2] = {(packed[0] >> 4) & kNibbles, (packed[1] >> 4) & kNibbles};
    w.mins = V::i16_from_i8(mins);
    w.d = V::splat_f16(block.d);
    w.dmin = V::splat_f16(block.dmin);
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
    const auto below = V::dot_i16(V::izero(), w.mins, V::load_i16(x.sums + 16 * i));
    add_scaled(sum, below, w.dmin, -x.scales[i]);
  }
};

}  // namespace ondol::quant
