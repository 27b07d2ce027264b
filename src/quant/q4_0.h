// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/panel.h"

namespace ondol::quant {

/// 32 weights in 18 bytes: w[i] = d * (q[i] - 8), q in 0 .. 15.
/// quants[i] holds q[i] in its low and q[i + 16] in its high four bits.
struct BlockQ4_0 {
  static constexpr int kValues = 32;
  uint8_t d[2];  ///< binary16
  uint8_t quants[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

void dequantize(const BlockQ4_0& block, float* out);
void quantize(const float* values, BlockQ4_0& block);

template <class V>
struct PanelQ4_0 {
  using Block = BlockQ4_0;
  using Out = Panel32<V>;
  static constexpr int kMax = 15;
  static constexpr int kLift = 8;
  static constexpr bool kOffset = false;

  template <class In>
  ONDOL_VEC void unpack(const In& in, Out& out) {
    nibbles<V>(in, offsetof(Block, quants), out.codes);
    out.d = in.half(0);
  }
};

}  // namespace ondol::quant
