// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/panel.h"

namespace ondol::quant {

/// 32 weights in 34 bytes: w[i] = d * quants[i].
struct BlockQ8_0 {
  static constexpr int kValues = 32;
  uint8_t d[2];  ///< binary16
  int8_t quants[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

void dequantize(const BlockQ8_0& block, float* out);
void quantize(const float* values, BlockQ8_0& block);

template <class V>
struct PanelQ8_0 {
  using Block = BlockQ8_0;
  using Out = Panel32<V>;
  static constexpr int kMax = simd::kSigned;
  static constexpr int kLift = V::kSignedLift;
  static constexpr bool kOffset = false;

  template <class In>
  ONDOL_VEC void unpack(const In& in, Out& out) {
    signed_bytes<V, 8>(in, offsetof(Block, quants), out.codes);
    out.d = in.half(0);
  }
};

}  // namespace ondol::quant
