// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/panel.h"

namespace ondol::quant {

/// 32 weights in 20 bytes: w[i] = d * q[i] + m, q in 0 .. 15.
/// quants[i] holds q[i] in its low and q[i + 16] in its high four bits.
struct BlockQ4_1 {
  static constexpr int kValues = 32;
  uint8_t d[2];  ///< binary16
  uint8_t m[2];  ///< binary16
  uint8_t quants[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

void dequantize(const BlockQ4_1& block, float* out);
void quantize(const float* values, BlockQ4_1& block);

template <class V>
struct PanelQ4_1 {
  using Block = BlockQ4_1;
  using Out = Panel32<V>;
  static constexpr int kMax = 15;
  static constexpr int kLift = 0;
  static constexpr bool kOffset = true;

  template <class In>
  ONDOL_VEC void unpack(const In& in, Out& out) {
    nibbles<V>(in, offsetof(Block, quants), out.codes);
    const auto both = in.u32(0);
    out.d = V::halves(both);
    out.m = V::high_halves(both);
  }
};

}  // namespace ondol::quant
