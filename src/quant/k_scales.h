// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/panel.h"

namespace ondol::quant {

/// The eight scales and eight minima (six bits each, 0 .. 63) of Q4_K and Q5_K in 12 bytes. For j <
/// 4:
///   packed[j]      bits 0-5  scale[j]               bits 6-7  high two bits of scale[j + 4]
///   packed[j + 4]  bits 0-5  min[j]                 bits 6-7  high two bits of min[j + 4]
///   packed[j + 8]  bits 0-3  low half of scale[j+4] bits 4-7  low half of min[j + 4]
struct KScales {
  uint8_t packed[12];

  /// Scale j and minimum j in byte j.
  void unpack(uint64_t& scale, uint64_t& min) const {
    uint32_t a, b, c;
    __builtin_memcpy(&a, packed, 4);
    __builtin_memcpy(&b, packed + 4, 4);
    __builtin_memcpy(&c, packed + 8, 4);
    const uint32_t scale_high = (c & 0x0f0f0f0fu) | ((a >> 2) & 0x30303030u);
    const uint32_t min_high = ((c >> 4) & 0x0f0f0f0fu) | ((b >> 2) & 0x30303030u);
    scale = (a & 0x3f3f3f3fu) | (uint64_t{scale_high} << 32);
    min = (b & 0x3f3f3f3fu) | (uint64_t{min_high} << 32);
  }

  constexpr void pack(const uint8_t* scale, const uint8_t* min) {
    for (int j = 0; j < 4; ++j) {
      packed[j] = static_cast<uint8_t>(scale[j] | ((scale[j + 4] >> 4) << 6));
      packed[j + 4] = static_cast<uint8_t>(min[j] | ((min[j + 4] >> 4) << 6));
      packed[j + 8] = static_cast<uint8_t>((scale[j + 4] & 15) | ((min[j + 4] & 15) << 4));
    }
  }
};

/// d, dmin, scales and minima of kLanes rows: the sixteen bytes that Q4_K and Q5_K begin with.
template <class V, class In>
ONDOL_VEC void unpack_k_header(const In& in, Panel256<V>& out) {
  typename V::I32 head[4];
  in.fetch(0);
  in.load(0, head);
  out.d = V::halves(head[0]);
  out.dmin = V::high_halves(head[0]);
  const typename V::I32 scales[2] = {
      bits<V, 0, 63>(head[1]),
      V::or_(bits<V, 0, 15>(head[3]), V::template shl<4>(bits<V, 6, 3>(head[1])))};
  const typename V::I32 mins[2] = {
      bits<V, 0, 63>(head[2]),
      V::or_(bits<V, 4, 15>(head[3]), V::template shl<4>(bits<V, 6, 3>(head[2])))};
  unrolled<8>([&](auto sub) ONDOL_VEC_LAMBDA {
    constexpr int j = decltype(sub)::value;
    out.scales[j] = V::scale(byte<V, j % 4>(scales[j / 4]));
    const auto min = byte<V, j % 4>(mins[j / 4]);
    out.pairs[j] = pair_of<V>(min, min);
  });
}

}  // namespace ondol::quant
