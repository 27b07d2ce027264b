// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/iq4_levels.h"
#include "quant/panel.h"

namespace ondol::quant {

/// 256 weights in 136 bytes, as 8 sub-blocks of 32:
///   w[i] = (d * (scale[i / 32] - 32)) * kIq4Levels[q[i]], q in 0 .. 15.
/// quants[16 j + l], j = 0 .. 7, l < 16, holds q[32 j + l] in its low and q[32 j + 16 + l] in its
/// high four bits.
/// scale has six bits. The low four of scale[2 k] and scale[2 k + 1] are the low and the high half
/// of scales_low[k]; the high two of scale[j] are bits 2 j, 2 j + 1 of scales_high.
struct BlockIQ4_XS {
  static constexpr int kValues = 256;
  uint8_t d[2];            ///< binary16
  uint8_t scales_high[2];  ///< little-endian
  uint8_t scales_low[4];
  uint8_t quants[128];
};
static_assert(sizeof(BlockIQ4_XS) == 136);

void dequantize(const BlockIQ4_XS& block, float* out);
void quantize(const float* values, BlockIQ4_XS& block);

template <class V>
struct PanelIQ4_XS {
  using Block = BlockIQ4_XS;
  using Out = Panel256<V>;
  static constexpr int kMax = simd::kSigned;
  static constexpr int kSub = 32;
  static constexpr Pairs kPairs = V::kSignedLift == 0 ? Pairs::kNone : Pairs::kLift;

  template <class In>
  ONDOL_VEC void unpack(const In& in, Out& out) {
    const auto start = in.u32(0);
    const auto low = in.u32(offsetof(Block, scales_low));
    out.d = V::halves(start);
    unrolled<8>([&](auto sub) ONDOL_VEC_LAMBDA {
      constexpr int j = decltype(sub)::value;
      auto* codes = out.codes + 8 * j;
      in.fetch(16 * j);
      nibbles<V>(in, offsetof(Block, quants) + 16 * j, codes);
      for (int t = 0; t < 8; ++t) codes[t] = V::signed_codes(V::lookup(kIq4Levels, codes[t]));
      const auto high_bits = V::and_(V::template shr<16 + 2 * j>(start), V::splat32(3));
      const auto low_bits = V::and_(V::template shr<4 * j>(low), V::splat32(15));
      const auto scale = V::sub32(V::or_(low_bits, V::template shl<4>(high_bits)), V::splat32(32));
      out.scales[j] = V::scale(scale);
      out.pairs[j] = lifted_pair<V, V::kSignedLift>(scale, scale);
    });
  }
};

}  // namespace ondol::quant
