// Thread rule: pure functions.
#pragma once

#include <cstdint>

namespace ondol::quant {

/// 256 weights in 210 bytes, as 16 sub-blocks of 16: w[i] = (d * scales[i / 16]) * (q[i] - 32), q
/// in 0 .. 63. In each half h of 128 weights, l < 32:
///   low[64 h + l]       holds the low four bits of q[128 h + l] (low half) and of q[128 h + 64 +
///   l] (high half), low[64 h + 32 + l]  those of q[128 h + 32 + l] and of q[128 h + 96 + l],
///   high[32 h + l]      the high two bits of q[128 h + 32 s + l] in bits 2 s, 2 s + 1, s = 0 .. 3.
struct BlockQ6_K {
  static constexpr int kValues = 256;
  uint8_t low[128];
  uint8_t high[64];
  int8_t scales[16];
  uint16_t d;  ///< binary16
};
static_assert(sizeof(BlockQ6_K) == 210);

void dequantize(const BlockQ6_K& block, float* out);
void quantize(const float* values, BlockQ6_K& block);

}  // namespace ondol::quant
