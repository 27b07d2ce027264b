// Thread rule: pure functions.
#pragma once

#include <cstdint>

namespace ondol::quant {

/// 32 weights in 22 bytes: w[i] = d * (q[i] - 16), q in 0 .. 31.
/// quants[i] holds the low four bits of q[i] in its low and those of q[i + 16] in its high half;
/// the fifth bit of q[i] is bit i of `high`, read as a little-endian number.
struct BlockQ5_0 {
  static constexpr int kValues = 32;
  uint16_t d;  ///< binary16
  uint8_t high[4];
  uint8_t quants[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

void dequantize(const BlockQ5_0& block, float* out);
void quantize(const float* values, BlockQ5_0& block);

}  // namespace ondol::quant
