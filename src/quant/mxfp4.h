// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/panel.h"

namespace ondol::quant {

/// Twice the sixteen E2M1 numbers, which makes them whole.
// Not inline: a copy in each object, so that no leaf shares a symbol with others.
constexpr int8_t kE2m1Twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

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

template <class V>
struct PanelMXFP4 {
  using Block = BlockMXFP4;
  using Out = Panel32<V>;
  // Lifted by 12 the numbers are unsigned, which multiplies faster.
  static constexpr int kMax = 24;
  static constexpr int kLift = 12;
  static constexpr bool kOffset = false;

  template <class In>
  ONDOL_VEC void unpack(const In& in, Out& out) {
    static constexpr uint8_t kLifted[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                            12, 11, 10, 9,  8,  6,  4,  0};
    nibbles<V>(in, offsetof(Block, quants), out.codes);
    for (auto& code : out.codes) code = V::lookup(kLifted, code);
    float d[V::kLanes];
    for (int r = 0; r < V::kLanes; ++r) d[r] = half_scale(in.byte(0, r));
    out.d = V::fload(d);
  }

 private:
  /// 2^(exponent - 128): half the scale, for numbers that are kept twice as large.
  ONDOL_VEC float half_scale(uint8_t exponent) {
    uint32_t bits = static_cast<uint32_t>(exponent - 1) << 23;
    if (exponent < 2) bits = 0x00200000u << exponent;  // subnormal
    if (exponent == 255) bits = 0x7fc00000u;
    return __builtin_bit_cast(float, bits);
  }
};

}  // namespace ondol::quant
