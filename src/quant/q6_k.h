// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/panel.h"

namespace ondol::quant {

/// 256 weights in 210 bytes, as 16 sub-blocks of 16:
///   w[i] = (d * scales[i / 16]) * (q[i] - 32), q in 0 .. 63.
/// In each half h of 128 weights, for l < 32:
///   low[64 h + l] holds the low four bits of q[128 h + l] and, above, of q[128 h + 64 + l];
///   low[64 h + 32 + l] those of q[128 h + 32 + l] and, above, of q[128 h + 96 + l];
///   high[32 h + l] holds the high two bits of q[128 h + 32 s + l] in bits 2 s, 2 s + 1, s = 0
///   .. 3.
struct BlockQ6_K {
  static constexpr int kValues = 256;
  uint8_t low[128];
  uint8_t high[64];
  int8_t scales[16];
  uint8_t d[2];  ///< binary16
};
static_assert(sizeof(BlockQ6_K) == 210);

void dequantize(const BlockQ6_K& block, float* out);
void quantize(const float* values, BlockQ6_K& block);

template <class V>
struct PanelQ6_K {
  using Block = BlockQ6_K;
  using Out = Panel256<V>;
  static constexpr int kMax = 63;
  static constexpr int kSub = 16;
  static constexpr Pairs kPairs = Pairs::kLift;

  template <class In>
  ONDOL_VEC void unpack(const In& in, Out& out) {
    for (int h = 0; h < 2; ++h) {
      typename V::I32 low[16];
      typename V::I32 high[8];
      raw_bytes<V, 16>(in, offsetof(Block, low) + 64 * h, low);
      raw_bytes<V, 8>(in, offsetof(Block, high) + 32 * h, high);
      auto* codes = out.codes + 32 * h;
      for (int t = 0; t < 8; ++t) {
        const auto up = [&](auto two_bits)
                            ONDOL_VEC_LAMBDA { return V::template shl<4>(two_bits); };
        codes[t] = V::or_(bits<V, 0, 15>(low[t]), up(bits<V, 0, 3>(high[t])));
        codes[8 + t] = V::or_(bits<V, 0, 15>(low[8 + t]), up(bits<V, 2, 3>(high[t])));
        codes[16 + t] = V::or_(bits<V, 4, 15>(low[t]), up(bits<V, 4, 3>(high[t])));
        codes[24 + t] = V::or_(bits<V, 4, 15>(low[8 + t]), up(bits<V, 6, 3>(high[t])));
      }
    }
    typename V::I32 packed[4];
    in.load(offsetof(Block, scales), packed);
    unrolled<8>([&](auto pair) ONDOL_VEC_LAMBDA {
      constexpr int p = decltype(pair)::value;
      const auto first = signed_byte<V, 2 * p % 4>(packed[p / 2]);
      const auto second = signed_byte<V, 2 * p % 4 + 1>(packed[p / 2]);
      out.scales[2 * p] = V::scale(first);
      out.scales[2 * p + 1] = V::scale(second);
      out.pairs[p] = lifted_pair<V, 32>(first, second);
    });
    out.d = in.half(offsetof(Block, d));
  }
};

}  // namespace ondol::quant
