// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/panel.h"

namespace ondol::quant {

/// 256 weights in 110 bytes, as 16 sub-blocks of 16:
///   w[i] = (d * (scale[i / 16] - 32)) * (q[i] - 4), q in 0 .. 7.
/// The low two bits of q[128 h + 32 s + l] are bits 2 s, 2 s + 1 of quants[32 h + l], h = 0, 1,
/// s = 0 .. 3, l < 32. The third bit of q[32 g + l], g = 0 .. 7, is bit g of high[l].
/// scale has six bits. The low four of scale[j] and scale[j + 8] are the low and the high half of
/// scales[j], j < 8; the high two of scale[4 k + j] are bits 2 k, 2 k + 1 of scales[8 + j], j < 4.
struct BlockQ3_K {
  static constexpr int kValues = 256;
  uint8_t high[32];
  uint8_t quants[64];
  uint8_t scales[12];
  uint8_t d[2];  ///< binary16
};
static_assert(sizeof(BlockQ3_K) == 110);

void dequantize(const BlockQ3_K& block, float* out);
void quantize(const float* values, BlockQ3_K& block);

template <class V>
struct PanelQ3_K {
  using Block = BlockQ3_K;
  using Out = Panel256<V>;
  static constexpr int kMax = 7;
  static constexpr int kSub = 16;
  static constexpr Pairs kPairs = Pairs::kLift;

  template <class In>
  ONDOL_VEC void unpack(const In& in, Out& out) {
    two_bits<V>(in, offsetof(Block, quants), out.codes);
    typename V::I32 high[8];
    raw_bytes<V, 8>(in, offsetof(Block, high), high);
    unrolled<8>([&](auto group) ONDOL_VEC_LAMBDA {
      constexpr int g = decltype(group)::value;
      for (int t = 0; t < 8; ++t) {
        auto& code = out.codes[8 * g + t];
        code = V::or_(code, V::template shl<2>(bits<V, g, 1>(high[t])));
      }
    });
    unpack_scales(in, out);
    out.d = in.half(offsetof(Block, d));
  }

 private:
  template <class In>
  ONDOL_VEC void unpack_scales(const In& in, Out& out) {
    const typename V::I32 low[2] = {in.u32(offsetof(Block, scales)),
                                    in.u32(offsetof(Block, scales) + 4)};
    const auto high = in.u32(offsetof(Block, scales) + 8);
    unrolled<4>([&](auto four) ONDOL_VEC_LAMBDA {
      constexpr int k = decltype(four)::value;
      const auto scales =
          V::or_(bits<V, 4 * (k / 2), 15>(low[k % 2]), V::template shl<4>(bits<V, 2 * k, 3>(high)));
      unrolled<2>([&](auto half) ONDOL_VEC_LAMBDA {
        constexpr int i = decltype(half)::value;
        const auto below = V::splat32(32);
        const auto first = V::sub32(byte<V, 2 * i>(scales), below);
        const auto second = V::sub32(byte<V, 2 * i + 1>(scales), below);
        out.scales[4 * k + 2 * i] = V::scale(first);
        out.scales[4 * k + 2 * i + 1] = V::scale(second);
        out.pairs[2 * k + i] = lifted_pair<V, 4>(first, second);
      });
    });
  }
};

}  // namespace ondol::quant
