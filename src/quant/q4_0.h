// Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "quant/dot.h"

namespace ondol::quant {

/// 32 weights in 18 bytes: w[i] = d * (q[i] - 8), q in 0 .. 15.
/// quants[i] holds q[i] in its low and q[i + 16] in its high four bits.
struct BlockQ4_0 {
  static constexpr int kValues = 32;
  uint8_t d[2];  ///< binary16
  uint8_t quants[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

void dequantize(const BlockQ4_0& block, float* out);
void quantize(const float* values, BlockQ4_0& block);

template <class V>
struct DotQ4_0 {
  using Block = BlockQ4_0;
  static constexpr ActKind kActs = ActKind::kBlocks32;
  struct Weights {
    typename V::Bytes q;
    typename V::F32 d;
  };

  ONDOL_VEC Weights unpack(const Block& block) {
    return {V::nibbles(block.quants), V::splat_f16(block.d)};
  }

  ONDOL_VEC void add(const Weights& w, const Acts& x, int64_t i, Sum<V>& sum) {
    const auto dot = V::dot_u8(V::izero(), w.q, V::load(x.q + 32 * i));
    add_lifted<8>(sum, dot, w.d, x.scales[i], x.offsets[i]);
  }
};

}  // namespace ondol::quant
