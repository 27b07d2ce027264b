#include "quant/q8_0.h"

#include "quant/fit.h"
#include "quant/half.h"

namespace ondol::quant {

void dequantize(const BlockQ8_0& block, float* out) {
  const float d = load_f16(block.d);
  for (size_t i = 0; i < 32; ++i) out[i] = static_cast<float>(block.quants[i]) * d;
}

void quantize(const float* values, BlockQ8_0& block) {
  // With 255 levels a search for the scale gains next to nothing.
  float largest = 0;
  for (size_t i = 0; i < 32; ++i) largest = std::max(largest, std::abs(values[i]));
  store_f16(to_half_finite(largest / 127.0f), block.d);
  const float inverse = inverse_scale(load_f16(block.d));
  constexpr IntegerLevels kLevels{-127, 127};
  for (size_t i = 0; i < 32; ++i) {
    block.quants[i] = static_cast<int8_t>(kLevels.nearest(values[i] * inverse));
  }
}

}  // namespace ondol::quant
