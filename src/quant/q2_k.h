// Thread rule: pure functions.
#pragma once

#include <cstdint>

namespace ondol::quant {

/// 256 weights in 84 bytes, as 16 sub-blocks of 16: w[i] = (d * scale[i / 16]) * q[i] - dmin *
/// min[i / 16], q in 0 .. 3. scales[j] holds scale[j] in its low and min[j] in its high four bits.
/// quants[32 h + l], h = 0, 1, l < 32, holds q[128 h + 32 s + l] in bits 2 s, 2 s + 1, s = 0 .. 3.
struct BlockQ2_K {
  static constexpr int kValues = 256;
  uint8_t scales[16];
  uint8_t quants[64];
  uint16_t d;     ///< binary16
  uint16_t dmin;  ///< binary16
};
static_assert(sizeof(BlockQ2_K) == 84);

void dequantize(const BlockQ2_K& block, float* out);
void quantize(const float* values, BlockQ2_K& block);

}  // namespace ondol::quant
