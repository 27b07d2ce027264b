// Thread rule: pure functions.
#pragma once

#include <cstdint>

namespace ondol::quant {

/// 32 weights in 17 bytes: w[i] = 2^(exponent - 127) * e2m1[q[i]], the OCP Microscaling format
/// MXFP4. quants[i] holds q[i] in its low and q[i + 16] in its high four bits. e2m1: 0, 0.5,
/// 1, 1.5, 2, 3, 4, 6; q + 8 is the negative of q, with one zero only: q = 8 is read as +0.
struct BlockMXFP4 {
  static constexpr int kValues = 32;
  uint8_t exponent;  ///< E8M0
  uint8_t quants[16];
};
static_assert(sizeof(BlockMXFP4) == 17);

void dequantize(const BlockMXFP4& block, float* out);
void quantize(const float* values, BlockMXFP4& block);

}  // namespace ondol::quant
