// Thread rule: pure functions.
#pragma once

#include <cstdint>

namespace ondol::quant {

/// 256 weights in 292 bytes: w[i] = d * quants[i]. `sums[j]` = quants[16 j] + ... + quants[16 j +
/// 15], for products with formats that have a minimum.
struct BlockQ8_K {
  static constexpr int kValues = 256;
  float d;
  int8_t quants[256];
  int16_t sums[16];
};
static_assert(sizeof(BlockQ8_K) == 292);

void dequantize(const BlockQ8_K& block, float* out);
void quantize(const float* values, BlockQ8_K& block);

}  // namespace ondol::quant
