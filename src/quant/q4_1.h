// Thread rule: plain data and templates over pure functions.
#pragma once

#include <cstdint>

#include "quant/dot.h"

namespace ondol::quant {

/// Q4_1: 32 values, value i = d * q[i] + m with q in 0..15.
struct BlockQ4_1 {
  uint8_t d[2];   ///< float16
  uint8_t m[2];   ///< float16
  uint8_t q[16];  ///< low nibbles: values 0..15, high nibbles: values 16..31
};
static_assert(sizeof(BlockQ4_1) == 20);

template <class V>
struct DotQ4_1 {
  using Block = BlockQ4_1;
  static constexpr ActKind kActs = ActKind::kBlocks32;
  struct Weights {
    typename V::Bytes q;
    float d;
    float m;
  };

  ONDOL_VEC Weights unpack(const Block& block) {
    return {V::nibbles(block.q), V::f16(block.d), V::f16(block.m)};
  }

  ONDOL_VEC void add(const Weights& w, const Acts& x, int64_t i, Sum<V>& sum) {
    const auto dot = V::dot_u8(V::izero(), w.q, V::load(x.q + 32 * i));
    add_scaled(sum, dot, w.d * x.scales[i]);
    sum.offset += w.m * x.offsets[i];
  }
};

}  // namespace ondol::quant
