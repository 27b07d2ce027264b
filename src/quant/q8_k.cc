#include "quant/q8_k.h"

#include "quant/fit.h"

namespace ondol::quant {

void dequantize(const BlockQ8_K& block, float* out) {
  for (size_t i = 0; i < 256; ++i) out[i] = block.d * static_cast<float>(block.quants[i]);
}

void quantize(const float* values, BlockQ8_K& block) {
  float largest = 0;
  for (size_t i = 0; i < 256; ++i) largest = std::max(largest, std::abs(values[i]));
  block.d = largest < kSmallest ? 0.0f : largest / 127.0f;
  const float inverse = block.d > 0 ? 127.0f / largest : 0.0f;
  constexpr IntegerLevels kLevels{-127, 127};
  for (size_t j = 0; j < 16; ++j) {
    int sum = 0;
    for (size_t i = 16 * j; i < 16 * (j + 1); ++i) {
      block.quants[i] = static_cast<int8_t>(kLevels.nearest(values[i] * inverse));
      sum += block.quants[i];
    }
    block.sums[j] = static_cast<int16_t>(sum);
  }
}

}  // namespace ondol::quant
