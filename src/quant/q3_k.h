// Thread rule: pure functions.
#pragma once

#include <cstdint>

namespace ondol::quant {

/// 256 weights in 110 bytes, as 16 sub-blocks of 16: w[i] = (d * (scale[i / 16] - 32)) * (q[i] -
/// 4), q in 0 .. 7. The low two bits of q: quants[32 h + l], h = 0, 1, l < 32, holds those of q[128
/// h + 32 s + l] in bits 2 s, 2 s + 1. The third bit of q[32 g + l], g = 0 .. 7, is bit g of
/// high[l]. scale has six bits: the low four of scale[j] and scale[j + 8] are the low and high half
/// of scales[j], j < 8; the high two of scale[4 k + j] are bits 2 k, 2 k + 1 of scales[8 + j], j
/// < 4.
struct BlockQ3_K {
  static constexpr int kValues = 256;
  uint8_t high[32];
  uint8_t quants[64];
  uint8_t scales[12];
  uint16_t d;  ///< binary16
};
static_assert(sizeof(BlockQ3_K) == 110);

void dequantize(const BlockQ3_K& block, float* out);
void quantize(const float* values, BlockQ3_K& block);

}  // namespace ondol::quant
