// Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "quant/iq4_levels.h"

namespace ondol::quant {

/// 32 weights in 18 bytes: w[i] = d * kIq4Levels[q[i]], q in 0 .. 15.
/// quants[i] holds q[i] in its low and q[i + 16] in its high four bits.
struct BlockIQ4_NL {
  static constexpr int kValues = 32;
  uint16_t d;  ///< binary16
  uint8_t quants[16];
};
static_assert(sizeof(BlockIQ4_NL) == 18);

void dequantize(const BlockIQ4_NL& block, float* out);
void quantize(const float* values, BlockIQ4_NL& block);

}  // namespace ondol::quant
