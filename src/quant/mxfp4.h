// Thread rule: pure functions.
#pragma once

#include <cstdint>

namespace ondol::quant {

/// Twice the sixteen E2M1 numbers, which makes them whole.
inline constexpr int8_t kE2m1Twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// 32 weights in 17 bytes: w[i] = 2^(exponent - 127) * e2m1[q[i]]: MXFP4 of the OCP Microscaling
/// Formats specification 1.0.
/// quants[i] holds q[i] in its low and q[i + 16] in its high four bits.
/// e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6; q + 8 is the negative of q, except that both zeros read as +0.
struct BlockMXFP4 {
  static constexpr int kValues = 32;
  uint8_t exponent;  ///< E8M0
  uint8_t quants[16];
};
static_assert(sizeof(BlockMXFP4) == 17);

void dequantize(const BlockMXFP4& block, float* out);
void quantize(const float* values, BlockMXFP4& block);

}  // namespace ondol::quant
