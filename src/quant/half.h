// Thread rule: pure functions.
//
// The small floating point formats that GGUF files use, to and from binary32. Conversions to
// binary32 are exact; those from it round to nearest, ties to even (IEEE 754-2008). constexpr, so
// tables can be made of them.
#pragma once

#include <bit>
#include <cstdint>

namespace ondol::quant {

inline constexpr float kMaxF16 = 65504.0f;

/// binary16 -> binary32, subnormals, infinities and NaN payloads included.
constexpr float f16_to_f32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude << 13));
  if (magnitude >= 0x0400u) return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
  const float value =
      static_cast<float>(magnitude) * 0x1p-24f;  // subnormal or zero: no leading one
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

/// binary32 -> binary16; too large becomes infinity, a NaN stays a (quiet) NaN.
constexpr uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65,520 is half way to what would be the next number
    half = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {
    const uint32_t rebased = magnitude - (112u << 23);
    half = (rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13;
  } else if (const uint32_t shift = 126 - (magnitude >> 23); shift <= 24) {
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const uint32_t rest = mantissa & ((1u << shift) - 1);
    const uint32_t middle = 1u << (shift - 1);
    half = mantissa >> shift;
    if (rest > middle || (rest == middle && (half & 1u) != 0)) ++half;
  }
  return static_cast<uint16_t>(sign | half);
}

/// The nearest finite binary16: a scale must never become infinite.
constexpr uint16_t f32_to_f16_finite(float value) {
  if (!(value > -kMaxF16)) return value != value ? uint16_t{0} : uint16_t{0xfbff};
  return value < kMaxF16 ? f32_to_f16(value) : uint16_t{0x7bff};
}

/// bfloat16 -> binary32.
constexpr float bf16_to_f32(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

/// binary32 -> bfloat16; a NaN stays a (quiet) NaN.
constexpr uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// E8M0, the scale of the OCP Microscaling formats: 2^(e - 127); 255 is NaN.
constexpr float e8m0_to_f32(uint8_t exponent) {
  if (exponent == 0) return 0x1p-127f;
  if (exponent == 255) return std::bit_cast<float>(0x7fc00000u);
  return std::bit_cast<float>(static_cast<uint32_t>(exponent) << 23);
}

}  // namespace ondol::quant
