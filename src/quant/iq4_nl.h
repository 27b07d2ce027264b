// Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "quant/dot.h"
#include "quant/iq4_levels.h"

namespace ondol::quant {

/// 32 weights in 18 bytes: w[i] = d * kIq4Levels[q[i]], q in 0 .. 15.
/// quants[i] holds q[i] in its low and q[i + 16] in its high four bits.
struct BlockIQ4_NL {
  static constexpr int kValues = 32;
  uint8_t d[2];  ///< binary16
  uint8_t quants[16];
};
static_assert(sizeof(BlockIQ4_NL) == 18);

void dequantize(const BlockIQ4_NL& block, float* out);
void quantize(const float* values, BlockIQ4_NL& block);

template <class V>
struct DotIQ4_NL {
  using Block = BlockIQ4_NL;
  static constexpr ActKind kActs = ActKind::kBlocks32;
  struct Weights {
    typename V::Bytes q;
    typename V::F32 d;
  };

  ONDOL_VEC Weights unpack(const Block& block) {
    return {V::lookup(kIq4Levels, V::nibbles(block.quants)), V::splat_f16(block.d)};
  }

  ONDOL_VEC void add(const Weights& w, const Acts& x, int64_t i, Sum<V>& sum) {
    const auto dot = V::dot_i8(V::izero(), w.q, V::load(x.q + 32 * i));
    add_scaled(sum, dot, w.d, x.scales[i]);
  }
};

}  // namespace ondol::quant
