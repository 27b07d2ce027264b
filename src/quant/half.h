// Thread rule: pure functions.
//
// The small floating point formats that GGUF files use, to and from binary32. Conversions to
// binary32 are exact; those from it round to nearest, ties to even (IEEE 754-2008). constexpr, so
// tables can be made of them.
#pragma once

#include <bit>
#include <cstdint>

#include "simd/half.h"

namespace ondol::quant {

using simd::float_to_half;
using simd::half_to_float;

inline constexpr float kMaxF16 = 65504.0f;

/// The nearest finite binary16: a scale must never become infinite.
[[maybe_unused]] static inline uint16_t to_half_finite(float value) {
  if (!(value > -kMaxF16)) return value != value ? uint16_t{0} : uint16_t{0xfbff};
  return value < kMaxF16 ? float_to_half(value) : uint16_t{0x7bff};
}

/// A binary16 as it lies in a block: two bytes, little-endian, at any address.
[[maybe_unused]] static inline float load_f16(const uint8_t* bytes) {
  return half_to_float(static_cast<uint16_t>(bytes[0] | (bytes[1] << 8)));
}
[[maybe_unused]] static inline void store_f16(uint16_t half, uint8_t* bytes) {
  bytes[0] = static_cast<uint8_t>(half);
  bytes[1] = static_cast<uint8_t>(half >> 8);
}

/// bfloat16 -> binary32.
[[maybe_unused]] static inline float bhalf_to_float(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

/// binary32 -> bfloat16; a NaN stays a (quiet) NaN.
[[maybe_unused]] static inline uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// E8M0, the scale of the OCP Microscaling formats: 2^(e - 127); 255 is NaN.
[[maybe_unused]] static inline float e8m0_to_f32(uint8_t exponent) {
  if (exponent == 0) return 0x1p-127f;
  if (exponent == 255) return std::bit_cast<float>(0x7fc00000u);
  return std::bit_cast<float>(static_cast<uint32_t>(exponent) << 23);
}

}  // namespace ondol::quant
