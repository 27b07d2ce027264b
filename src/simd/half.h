// Thread rule: pure functions.
#pragma once

#include <cstdint>

namespace ondol::simd {

/// The value of an IEEE 754 binary16 number. Internal linkage, so that kernel files may use it (see
/// vec.h).
[[maybe_unused]] static inline float half_to_float(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t rest = half & 0x7fffu;
  uint32_t bits = (rest << 13) + 0x38000000u;  // the exponent's bias grows from 15 to 127
  if (rest >= 0x7c00u) {
    bits = (rest << 13) | 0x7f800000u;  // infinities and NaN
  } else if (rest < 0x0400u) {          // subnormal: rest * 2^-24, exact in a float
    const float value = static_cast<float>(rest) * 0x1p-24f;
    bits = __builtin_bit_cast(uint32_t, value);
  }
  return __builtin_bit_cast(float, sign | bits);
}

/// The nearest binary16 number, ties to even; too large becomes infinite, NaN stays (quiet).
[[maybe_unused]] static inline uint16_t float_to_half(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t rest = bits & 0x7fffffffu;
  uint32_t half = 0;
  if (rest > 0x7f800000u) {
    half = 0x7e00u | ((rest >> 13) & 0x3ffu);
  } else if (rest >= 0x477ff000u) {  // 65520 and more round to infinity
    half = 0x7c00u;
  } else if (rest >= 0x38800000u) {  // normal: round the 13 bits away to even
    half = (rest - 0x38000000u + 0x0fffu + ((rest >> 13) & 1u)) >> 13;
  } else {  // subnormal: adding 0.5 aligns the value's last half bit with the float's last bit,
            // rounding on the way
    const float shifted = __builtin_bit_cast(float, rest) + 0.5f;
    half = __builtin_bit_cast(uint32_t, shifted) - 0x3f000000u;
  }
  return static_cast<uint16_t>(sign | half);
}

}  // namespace ondol::simd
