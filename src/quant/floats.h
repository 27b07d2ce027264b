// Thread rule: pure functions.
//
// F32, F16, BF16: no blocks, each element is a number by itself. In products the activations stay
// floats too.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "quant/half.h"
#include "quant/panel.h"

namespace ondol::quant {

/// IEEE binary32.
struct BlockF32 {
  static constexpr int kValues = 1;
  float value;
};
inline void dequantize(const BlockF32& block, float* out) { *out = block.value; }
inline void quantize(const float* values, BlockF32& block) { block.value = *values; }

template <class V>
struct PanelF32 {
  using Out = PanelFloats<V, 4>;
  template <class In>
  ONDOL_VEC void unpack(const In& in, Out& out) {
    typename V::I32 bits[4];
    in.load(0, bits);
    for (int t = 0; t < 4; ++t) out.values[t] = V::as_f32(bits[t]);
  }
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
struct PanelF16 {
  using Out = PanelFloats<V, 8>;
  template <class In>
  ONDOL_VEC void unpack(const In& in, Out& out) {
    typename V::I32 pairs[4];
    in.load(0, pairs);
    for (int t = 0; t < 4; ++t) {
      out.values[2 * t] = V::halves(pairs[t]);
      out.values[2 * t + 1] = V::high_halves(pairs[t]);
    }
  }
};

/// bfloat16: the upper half of a binary32.
struct BlockBF16 {
  static constexpr int kValues = 1;
  uint16_t value;
};
inline void dequantize(const BlockBF16& block, float* out) { *out = bhalf_to_float(block.value); }
inline void quantize(const float* values, BlockBF16& block) { block.value = f32_to_bf16(*values); }

template <class V>
struct PanelBF16 {
  using Out = PanelFloats<V, 8>;
  template <class In>
  ONDOL_VEC void unpack(const In& in, Out& out) {
    typename V::I32 pairs[4];
    in.load(0, pairs);
    for (int t = 0; t < 4; ++t) {
      out.values[2 * t] = V::as_f32(V::template shl<16>(pairs[t]));
      out.values[2 * t + 1] = V::as_f32(V::and_(pairs[t], V::splat32(-65536)));
    }
  }
};

}  // namespace ondol::quant
