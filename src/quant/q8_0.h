// Thread rule: plain data and templates over pure functions.
#pragma once

#include <cstdint>

#include "quant/dot.h"

namespace ondol::quant {

/// Q8_0: 32 values, value i = d * q[i].
struct BlockQ8_0 {
  uint8_t d[2];  ///< float16
  int8_t q[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

template <class V>
struct DotQ8_0 {
  using Block = BlockQ8_0;
  static constexpr ActKind kActs = ActKind::kBlocks32;
  struct Weights {
    typename V::Bytes q;
    float d;
  };

  ONDOL_VEC Weights unpack(const Block& block) { return {V::load(block.q), V::f16(block.d)}; }

  ONDOL_VEC void add(const Weights& w, const Acts& x, int64_t i, Sum<V>& sum) {
    const auto dot = V::dot_i8(V::izero(), w.q, V::load(x.q + 32 * i));
    add_scaled(sum, dot, w.d * x.scales[i]);
  }
};

}  // namespace ondol::quant
