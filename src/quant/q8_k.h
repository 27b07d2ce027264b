// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/panel.h"

namespace ondol::quant {

/// 256 weights in 292 bytes: w[i] = d * quants[i].
/// sums[j] = quants[16 j] + ... + quants[16 j + 15], for products with formats that have a minimum.
struct BlockQ8_K {
  static constexpr int kValues = 256;
  uint8_t d[4];  ///< binary32
  int8_t quants[256];
  uint8_t sums[16][2];  ///< int16
};
static_assert(sizeof(BlockQ8_K) == 292);

void dequantize(const BlockQ8_K& block, float* out);
void quantize(const float* values, BlockQ8_K& block);

template <class V>
struct PanelQ8_K {
  using Block = BlockQ8_K;
  using Out = Panel256<V>;
  static constexpr int kMax = simd::kSigned;
  static constexpr int kSub = 32;
  static constexpr Pairs kPairs = V::kSignedLift == 0 ? Pairs::kNone : Pairs::kLift;

  template <class In>
  ONDOL_VEC void unpack(const In& in, Out& out) {
    signed_bytes<V, 64>(in, offsetof(Block, quants), out.codes);
    const auto one = V::splat32(1);
    for (int j = 0; j < 8; ++j) {
      out.scales[j] = V::scale(one);
      out.pairs[j] = lifted_pair<V, V::kSignedLift>(one, one);
    }
    out.d = V::as_f32(in.u32(0));
  }
};

}  // namespace ondol::quant
