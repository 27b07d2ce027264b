// Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "quant/k_scales.h"

namespace ondol::quant {

/// 256 weights in 176 bytes, as 8 sub-blocks of 32: w[i] = (d * scale[i / 32]) * q[i] - dmin *
/// min[i / 32], q in 0 .. 31. quants[32 g + l], g = 0 .. 3, l < 32, holds the low four bits of q[64
/// g + l] in its low and those of q[64 g + 32 + l] in its high half; the fifth bit of q[32 j + l],
/// j = 0 .. 7, is bit j of high[l]. scales: see KScales.
struct BlockQ5_K {
  static constexpr int kValues = 256;
  uint16_t d;     ///< binary16
  uint16_t dmin;  ///< binary16
  KScales scales;
  uint8_t high[32];
  uint8_t quants[128];
};
static_assert(sizeof(BlockQ5_K) == 176);

void dequantize(const BlockQ5_K& block, float* out);
void quantize(const float* values, BlockQ5_K& block);

}  // namespace ondol::quant
