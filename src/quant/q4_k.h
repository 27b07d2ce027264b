// Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "quant/k_scales.h"

namespace ondol::quant {

/// 256 weights in 144 bytes, as 8 sub-blocks of 32: w[i] = (d * scale[i / 32]) * q[i] - dmin *
/// min[i / 32], q in 0 .. 15. quants[32 g + l], g = 0 .. 3, l < 32, holds q[64 g + l] in its low
/// and q[64 g + 32 + l] in its high four bits. scales: see KScales.
struct BlockQ4_K {
  static constexpr int kValues = 256;
  uint16_t d;     ///< binary16
  uint16_t dmin;  ///< binary16
  KScales scales;
  uint8_t quants[128];
};
static_assert(sizeof(BlockQ4_K) == 144);

void dequantize(const BlockQ4_K& block, float* out);
void quantize(const float* values, BlockQ4_K& block);

}  // namespace ondol::quant
