// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/k_scales.h"
#include "quant/panel.h"

namespace ondol::quant {

/// 256 weights in 176 bytes, as 8 sub-blocks of 32:
///   w[i] = (d * scale[i / 32]) * q[i] - dmin * min[i / 32], q in 0 .. 31.
/// quants[32 g + l], g = 0 .. 3, l < 32, holds the low four bits of q[64 g + l] in its low and
/// those of q[64 g + 32 + l] in its high half. The fifth bit of q[32 j + l], j = 0 .. 7, is bit j
/// of high[l].
struct BlockQ5_K {
  static constexpr int kValues = 256;
  uint8_t d[2];     ///< binary16
  uint8_t dmin[2];  ///< binary16
  KScales scales;
  uint8_t high[32];
  uint8_t quants[128];
};
static_assert(sizeof(BlockQ5_K) == 176);

void dequantize(const BlockQ5_K& block, float* out);
void quantize(const float* values, BlockQ5_K& block);

template <class V>
struct PanelQ5_K {
  using Block = BlockQ5_K;
  using Out = Panel256<V>;
  static constexpr int kMax = 31;
  static constexpr int kSub = 32;
  static constexpr Pairs kPairs = Pairs::kMins;

  template <class In>
  ONDOL_VEC void unpack(const In& in, Out& out) {
    unpack_k_header<V>(in, out);
    typename V::I32 high[8];
    raw_bytes<V, 8>(in, offsetof(Block, high), high);
    unrolled<4>([&](auto group) ONDOL_VEC_LAMBDA {
      constexpr int g = decltype(group)::value;
      typename V::I32 packed[8];
      raw_bytes<V, 8>(in, offsetof(Block, quants) + 32 * g, packed);
      for (int t = 0; t < 8; ++t) {
        const auto first = V::template shl<4>(bits<V, 2 * g, 1>(high[t]));
        const auto second = V::template shl<4>(bits<V, 2 * g + 1, 1>(high[t]));
        out.codes[16 * g + t] = V::or_(bits<V, 0, 15>(packed[t]), first);
        out.codes[16 * g + 8 + t] = V::or_(bits<V, 4, 15>(packed[t]), second);
      }
    });
  }
};

}  // namespace ondol::quant
