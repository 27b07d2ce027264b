// Thread rule: pure functions.
//
// Formats without blocks: each element is a number by itself.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "quant/half.h"

namespace ondol::quant {

/// IEEE binary32.
struct BlockF32 {
  static constexpr int kValues = 1;
  float value;
};
inline void dequantize(const BlockF32& block, float* out) { *out = block.value; }
inline void quantize(const float* values, BlockF32& block) { block.value = *values; }

/// IEEE binary16. A finite value beyond its range becomes the largest finite one.
struct BlockF16 {
  static constexpr int kValues = 1;
  uint16_t value;
};
inline void dequantize(const BlockF16& block, float* out) { *out = f16_to_f32(block.value); }
inline void quantize(const float* values, BlockF16& block) {
  block.value = std::isfinite(*values) ? f32_to_f16(std::clamp(*values, -kMaxF16, kMaxF16))
                                       : f32_to_f16(*values);
}

/// bfloat16: the upper half of a binary32.
struct BlockBF16 {
  static constexpr int kValues = 1;
  uint16_t value;
};
inline void dequantize(const BlockBF16& block, float* out) { *out = bf16_to_f32(block.value); }
inline void quantize(const float* values, BlockBF16& block) { block.value = f32_to_bf16(*values); }

}  // namespace ondol::quant
