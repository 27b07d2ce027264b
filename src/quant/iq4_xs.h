// Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "quant/dot.h"
#include "quant/iq4_levels.h"

namespace ondol::quant {

/// 256 weights in 136 bytes, as 8 sub-blocks of 32:
///   w[i] = (d * (scale[i / 32] - 32)) * kIq4Levels[q[i]], q in 0 .. 15.
/// quants[16 j + l], j = 0 .. 7, l < 16, holds q[32 j + l] in its low and q[32 j + 16 + l] in its
/// high four bits.
/// scale has six bits. The low four of scale[2 k] and scale[2 k + 1] are the low and the high half
/// of scales_low[k]; the high two of scale[j] are bits 2 j, 2 j + 1 of scales_high.
struct BlockIQ4_XS {
  static constexpr int kValues = 256;
  uint8_t d[2];            ///< binary16
  uint8_t scales_high[2];  ///< little-endian
  uint8_t scales_low[4];
  uint8_t quants[128];
};
static_assert(sizeof(BlockIQ4_XS) == 136);

void dequantize(const BlockIQ4_XS& block, float* out);
void quantize(const float* values, BlockIQ4_XS& block);

template <class V>
struct DotIQ4_XS {
  using Block = BlockIQ4_XS;
  static constexpr ActKind kActs = ActKind::kBlocks256;
  struct Weights {
    typename V::Bytes q[8];
    typename V::Factors scales;
    typename V::F32 d;
  };

  ONDOL_VEC Weights unpack(const Block& block) {
    Weights w;
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      w.q[j] = V::lookup(kIq4Levels, V::nibbles(block.quants + 16 * j));
    }
    w.scales = V::factors(unpack_scales(block));
    w.d = V::splat_f16(block.d);
    return w;
  }

  ONDOL_VEC void add(const Weights& w, const Acts& x, int64_t i, Sum<V>& sum) {
    const int8_t* q = x.q + 256 * i;
    auto dot = V::izero();
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      dot = V::dot_i8_scaled(dot, w.q[j], V::load(q + 32 * j), V::pick(w.scales, j, j));
    }
    add_scaled(sum, dot, w.d, x.scales[i]);
  }

 private:
  /// scale[j] - 32 as 8 int8 in a register.
  ONDOL_VEC uint64_t unpack_scales(const Block& block) {
    uint32_t low_packed;
    uint16_t high_packed;
    __builtin_memcpy(&low_packed, block.scales_low, 4);
    __builtin_memcpy(&high_packed, block.scales_high, 2);
    // Each step halves the width of the fields and doubles their distance.
    uint64_t low = low_packed;
    low = (low | (low << 16)) & 0x0000ffff0000ffff;
    low = (low | (low << 8)) & 0x00ff00ff00ff00ff;
    low = (low | (low << 4)) & 0x0f0f0f0f0f0f0f0f;
    uint64_t high = high_packed;
    high = (high | (high << 24)) & 0x000000ff000000ff;
    high = (high | (high << 12)) & 0x000f000f000f000f;
    high = (high | (high << 6)) & 0x0303030303030303;
    // Less 32 in each byte: the top bit is set first, so that no byte borrows from the next.
    const uint64_t scales = low | (high << 4) | 0x8080808080808080;
    return (scales - 0x2020202020202020) ^ 0x8080808080808080;
  }
};

}  // namespace ondol::quant
