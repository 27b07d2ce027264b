// Thread rule: pure functions.
#pragma once

#include <cstdint>

namespace ondol::quant {

/// 32 weights in 34 bytes: w[i] = d * quants[i].
struct BlockQ8_0 {
  static constexpr int kValues = 32;
  uint16_t d;  ///< binary16
  int8_t quants[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

void dequantize(const BlockQ8_0& block, float* out);
void quantize(const float* values, BlockQ8_0& block);

}  // namespace ondol::quant
