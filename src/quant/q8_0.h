// Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "quant/dot.h"

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
struct DotQ8_0 {
  using Block = BlockQ8_0;
  static constexpr ActKind kActs = ActKind::kBlocks32;
  struct Weights {
    typename V::Bytes q;
    typename V::F32 d;
  };

  ONDOL_VEC Weights unpack(const Block& block) {
    return {V::load(block.quants), V::splat_f16(block.d)};
  }

  ONDOL_VEC void add(const Weights& w, const Acts& x, int64_t i, Sum<V>& sum) {
    const auto dot = V::dot_i8(V::izero(), w.q, V::load(x.q + 32 * i));
    add_scaled(sum, dot, w.d, x.scales[i]);
  }
};

}  // namespace ondol::quant
