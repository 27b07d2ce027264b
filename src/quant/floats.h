// Thread rule: pure functions.
//
// F32, F16, BF16: no blocks, each element is a number by itself. In products the activations stay
// floats too; `load` gives 8 weights, which lie kBytes apart.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "quant/dot.h"
#include "quant/half.h"

namespace ondol::quant {

/// IEEE binary32.
struct BlockF32 {
  static constexpr int kValues = 1;
  float value;
};
inline void dequantize(const BlockF32& block, float* out) { *out = block.value; }
inline void quantize(const float* values, BlockF32& block) { block.value = *values; }

template <class V>
struct DotF32 {
  static constexpr ActKind kActs = ActKind::kFloat;
  static constexpr int kBytes = 4;
  ONDOL_VEC typename V::F32 load(const uint8_t* p) { return V::load_f32(p); }
};

/// IEEE binary16. A finite value beyond its range becomes the largest finite one.
struct BlockF16 {
  static constexpr int kValues = 1;
  uint16_t value;
};
inline void dequantize(const BlockF16& block, float* out) { *out = half_to_float(block.value); }
inline void quantize(const float* values, BlockF16& block) {
  block.value = std::isfinite(*values) ? float_to_half(std::clamp(*values, -kMaxF16, kMaxF16))
                                       : float_to_half(*values);
}

template <class V>
struct DotF16 {
  static constexpr ActKind kActs = ActKind::kFloat;
  static constexpr int kBytes = 2;
  ONDOL_VEC typename V::F32 load(const uint8_t* p) { return V::load_f16(p); }
};

/// bfloat16: the upper half of a binary32.
struct BlockBF16 {
  static constexpr int kValues = 1;
  uint16_t value;
};
inline void dequantize(const BlockBF16& block, float* out) { *out = bhalf_to_float(block.value); }
inline void quantize(const float* values, BlockBF16& block) { block.value = f32_to_bf16(*values); }

template <class V>
struct DotBF16 {
  static constexpr ActKind kActs = ActKind::kFloat;
  static constexpr int kBytes = 2;
  ONDOL_VEC typename V::F32 load(const uint8_t* p) { return V::load_bf16(p); }
};

}  // namespace ondol::quant
