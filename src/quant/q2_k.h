// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/panel.h"

namespace ondol::quant {

/// 256 weights in 84 bytes, as 16 sub-blocks of 16:
///   w[i] = (d * scale[i / 16]) * q[i] - dmin * min[i / 16], q in 0 .. 3.
/// scales[j] holds scale[j] in its low and min[j] in its high four bits.
/// quants[32 h + l], h = 0, 1, l < 32, holds q[128 h + 32 s + l] in bits 2 s, 2 s + 1, s = 0 .. 3.
struct BlockQ2_K {
  static constexpr int kValues = 256;
  uint8_t scales[16];
  uint8_t quants[64];
  uint8_t d[2];     ///< binary16
  uint8_t dmin[2];  ///< binary16
};
static_assert(sizeof(BlockQ2_K) == 84);

void dequantize(const BlockQ2_K& block, float* out);
void quantize(const float* values, BlockQ2_K& block);

template <class V>
struct PanelQ2_K {
  using Block = BlockQ2_K;
  using Out = Panel256<V>;
  static constexpr int kMax = 3;
  static constexpr int kSub = 16;
  static constexpr Pairs kPairs = Pairs::kMins;

  template <class In>
  ONDOL_VEC void unpack(const In& in, Out& out) {
    two_bits<V>(in, offsetof(Block, quants), out.codes);
    typename V::I32 packed[4];
    in.load(offsetof(Block, scales), packed);
    unrolled<8>([&](auto pair) ONDOL_VEC_LAMBDA {
      constexpr int p = decltype(pair)::value;
      const auto first = byte<V, 2 * p % 4>(packed[p / 2]);
      const auto second = byte<V, 2 * p % 4 + 1>(packed[p / 2]);
      const auto low = V::splat32(15);
      out.scales[2 * p] = V::scale(V::and_(first, low));
      out.scales[2 * p + 1] = V::scale(V::and_(second, low));
      out.pairs[p] = pair_of<V>(V::template shr<4>(first), V::template shr<4>(second));
    });
    const auto both = in.u32(offsetof(Block, d));
    out.d = V::halves(both);
    out.dmin = V::high_halves(both);
  }
};

}  // namespace ondol::quant
