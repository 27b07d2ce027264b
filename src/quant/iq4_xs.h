// Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "quant/iq4_levels.h"

namespace ondol::quant {

/// 256 weights in 136 bytes, as 8 sub-blocks of 32: w[i] = (d * (scale[i / 32] - 32)) *
/// kIq4Levels[q[i]], q in 0 .. 15. quants[16 j + l], j = 0 .. 7, l < 16, holds q[32 j + l] in its
/// low and q[32 j + 16 + l] in its high four bits. scale has six bits: the low four of scale[2 k]
/// and scale[2 k + 1] are the low and high half of scales_low[k]; the high two of scale[j] are bits
/// 2 j, 2 j + 1 of scales_high.
struct BlockIQ4_XS {
  static constexpr int kValues = 256;
  uint16_t d;  ///< binary16
  uint16_t scales_high;
  uint8_t scales_low[4];
  uint8_t quants[128];
};
static_assert(sizeof(BlockIQ4_XS) == 136);

void dequantize(const BlockIQ4_XS& block, float* out);
void quantize(const float* values, BlockIQ4_XS& block);

}  // namespace ondol::quant
