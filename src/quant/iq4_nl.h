// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/iq4_levels.h"
#include "quant/panel.h"

namespace ondol::quant {

/// 32 weights in 18 bytes: w[i] = d * kIq4Levels[q[i]], q in 0 .. 15.
/// quants[i] holds q[i] in its low and q[i + 16] in its high four bits.
struct BlockIQ4_NL {
  static constexpr int kValues = 32;
  uint8_t d[2];  ///< binary16
  uint8_t quants[16];
};
static_assert(sizeof(BlockIQ4_NL) == 18);

void dequantize(const BlockIQ4_NL& block, float* out);
void quantize(const float* values, BlockIQ4_NL& block);

template <class V>
struct PanelIQ4_NL {
  using Block = BlockIQ4_NL;
  using Out = Panel32<V>;
  static constexpr int kMax = simd::kSigned;
  static constexpr int kLift = V::kSignedLift;
  static constexpr bool kOffset = false;

  template <class In>
  ONDOL_VEC void unpack(const In& in, Out& out) {
    nibbles<V>(in, offsetof(Block, quants), out.codes);
    for (auto& code : out.codes) code = V::signed_codes(V::lookup(kIq4Levels, code));
    out.d = in.half(0);
  }
};

}  // namespace ondol::quant
