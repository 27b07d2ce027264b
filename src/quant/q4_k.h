// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/k_scales.h"
#include "quant/panel.h"

namespace ondol::quant {

/// 256 weights in 144 bytes, as 8 sub-blocks of 32:
///   w[i] = (d * scale[i / 32]) * q[i] - dmin * min[i / 32], q in 0 .. 15.
/// quants[32 g + l], g = 0 .. 3, l < 32, holds q[64 g + l] in its low and q[64 g + 32 + l] in its
/// high four bits.
struct BlockQ4_K {
  static constexpr int kValues = 256;
  uint8_t d[2];     ///< binary16
  uint8_t dmin[2];  ///< binary16
  KScales scales;
  uint8_t quants[128];
};
static_assert(sizeof(BlockQ4_K) == 144);

void dequantize(const BlockQ4_K& block, float* out);
void quantize(const float* values, BlockQ4_K& block);

template <class V>
struct PanelQ4_K {
  using Block = BlockQ4_K;
  using Out = Panel256<V>;
  static constexpr int kMax = 15;
  static constexpr int kSub = 32;
  static constexpr Pairs kPairs = Pairs::kMins;

  template <class In>
  ONDOL_VEC void unpack(const In& in, Out& out) {
    unpack_k_header<V>(in, out);
    for (int g = 0; g < 4; ++g) {
      typename V::I32 packed[8];
      raw_bytes<V, 8>(in, offsetof(Block, quants) + 32 * g, packed);
      for (int t = 0; t < 8; ++t) {
        out.codes[16 * g + t] = bits<V, 0, 15>(packed[t]);
        out.codes[16 * g + 8 + t] = bits<V, 4, 15>(packed[t]);
      }
    }
  }
};

}  // namespace ondol::quant
