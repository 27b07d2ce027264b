// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/panel.h"

namespace ondol::quant {

/// 32 weights in 24 bytes: w[i] = d * q[i] + m, q in 0 .. 31.
/// quants[i] holds the low four bits of q[i] in its low and those of q[i + 16] in its high half.
/// The fifth bit of q[i] is bit i of `high`, read as a little-endian number.
struct BlockQ5_1 {
  static constexpr int kValues = 32;
  uint8_t d[2];  ///< binary16
  uint8_t m[2];  ///< binary16
  uint8_t high[4];
  uint8_t quants[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

void dequantize(const BlockQ5_1& block, float* out);
void quantize(const float* values, BlockQ5_1& block);

template <class V>
struct PanelQ5_1 {
  using Block = BlockQ5_1;
  using Out = Panel32<V>;
  static constexpr int kMax = 31;
  static constexpr int kLift = 0;
  static constexpr bool kOffset = true;

  template <class In>
  ONDOL_VEC void unpack(const In& in, Out& out) {
    nibbles<V>(in, offsetof(Block, quants), out.codes);
    add_fifth_bits<V>(in.u32(offsetof(Block, high)), out.codes);
    const auto both = in.u32(0);
    out.d = V::halves(both);
    out.m = V::high_halves(both);
  }
};

}  // namespace ondol::quant
