// Thread rule: pure functions.
#pragma once

#include <cstdint>

#include "quant/dot.h"

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
struct DotQ3_K {
  using Block = BlockQ3_K;
  static constexpr ActKind kActs = ActKind::kBlocks256;
  struct Weights {
    typename V::Bytes q[8];
    typename V::Factors scales[2];  ///< of sub-blocks 0 .. 7, 8 .. 15
    typename V::I16 factors;        ///< the same scales, for what q was lifted by
    typename V::F32 d;
  };

  ONDOL_VEC Weights unpack(const Block& block) {
    Weights w;
    const auto high = V::load(block.high);
    const auto bit2 = V::splat(4);
    const auto low = V::splat(3);
    const auto lower = V::load(block.quants);
    const auto upper = V::load(block.quants + 32);
    w.q[0] = V::or_(V::and_(lower, low), V::and_(V::template shl<2>(high), bit2));
    w.q[1] =
        V::or_(V::and_(V::template shr<2>(lower), low), V::and_(V::template shl<1>(high), bit2));
    w.q[2] = V::or_(V::and_(V::template shr<4>(lower), low), V::and_(high, bit2));
    w.q[3] = V::or_(V::template shr<6>(lower), V::and_(V::template shr<1>(high), bit2));
    w.q[4] = V::or_(V::and_(upper, low), V::and_(V::template shr<2>(high), bit2));
    w.q[5] =
        V::or_(V::and_(V::template shr<2>(upper), low), V::and_(V::template shr<3>(high), bit2));
    w.q[6] =
        V::or_(V::and_(V::template shr<4>(upper), low), V::and_(V::template shr<4>(high), bit2));
    w.q[7] = V::or_(V::template shr<6>(upper), V::and_(V::template shr<5>(high), bit2));
    uint64_t scales[2];
    unpack_scales(block.scales, scales);
    w.scales[0] = V::factors(scales[0]);
    w.scales[1] = V::factors(scales[1]);
    w.factors = V::i16_from_i8(scales);
    w.d = V::splat_f16(block.d);
    return w;
  }

  ONDOL_VEC void add(const Weights& w, const Acts& x, int64_t i, Sum<V>& sum) {
    const int8_t* q = x.q + 256 * i;
    auto dot = V::izero();
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      const auto scale = V::pick(w.scales[j / 4], 2 * j % 8, 2 * j % 8 + 1);
      dot = V::dot_u8_scaled(dot, w.q[j], V::load(q + 32 * j), scale);
    }
    add_scaled(sum, dot, w.d, x.scales[i]);
    const auto lifted = V::dot_i16(V::izero(), w.factors, V::load_i16(x.sums + 16 * i));
    add_scaled(sum, lifted, w.d, -4.0f * x.scales[i]);
  }

 private:
  /// scale[j] - 32 as 16 int8, eight at a time in a register.
  ONDOL_VEC void unpack_scales(const uint8_t* packed, uint64_t (&scales)[2]) {
    uint64_t low;
    uint32_t high;
    __builtin_memcpy(&low, packed, 8);
    __builtin_memcpy(&high, packed + 8, 4);
    const uint64_t high_low = high | (uint64_t{high >> 2} << 32);  // bits of 0 .. 3, then of 4 .. 7
    scales[0] = join(low, high_low);
    scales[1] = join(low >> 4, high_low >> 4);
  }
  ONDOL_VEC uint64_t join(uint64_t low, uint64_t high) {
    const uint64_t scale = (low & 0x0f0f0f0f0f0f0f0f) | ((high & 0x0303030303030303) << 4);
    // Less 32 in each byte: the top bit is set first, so that no byte borrows from the next.
    return ((scale | 0x8080808080808080) - 0x2020202020202020) ^ 0x8080808080808080;
  }
};

}  // namespace ondol::quant
