// Thread rule: pure functions.
#pragma once

#include <cstdint>

namespace ondol::quant {

/// 32 weights in 18 bytes: w[i] = d * (q[i] - 8), q in 0 .. 15.
/// quants[i] holds q[i] in its low and q[i + 16] in its high four bits.
struct BlockQ4_0 {
  static constexpr int kValues = 32;
  uint16_t d;  ///< binary16
  uint8_t quants[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

void dequantize(const BlockQ4_0& block, float* out);
void quantize(const float* values, BlockQ4_0& block);

}  // namespace ondol::quant
