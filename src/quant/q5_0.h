// Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "quant/dot.h"

namespace ondol::quant {

/// 32 weights in 22 bytes: w[i] = d * (q[i] - 16), q in 0 .. 31.
/// quants[i] holds the low four bits of q[i] in its low and those of q[i + 16] in its high half.
/// The fifth bit of q[i] is bit i of `high`, read as a little-endian number.
struct BlockQ5_0 {
  static constexpr int kValues = 32;
  uint8_t d[2];  ///< binary16
  uint8_t high[4];
  uint8_t quants[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

void dequantize(const BlockQ5_0& block, float* out);
void quantize(const float* values, BlockQ5_0& block);

template <class V>
struct DotQ5_0 {
  using Block = BlockQ5_0;
  static constexpr ActKind kActs = ActKind::kBlocks32;
  struct Weights {
    typename V::Bytes q;
    typename V::F32 d;
  };

  ONDOL_VEC Weights unpack(const Block& block) {
    const auto q = V::or_bits(V::nibbles(block.quants), block.high, 16);
    return {q, V::splat_f16(block.d)};
  }

  ONDOL_VEC void add(const Weights& w, const Acts& x, int64_t i, Sum<V>& sum) {
    const auto dot = V::dot_u8(V::izero(), w.q, V::load(x.q + 32 * i));
    add_lifted<16>(sum, dot, w.d, x.scales[i], x.offsets[i]);
  }
};

}  // namespace ondol::quant
