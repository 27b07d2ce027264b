#include "quant/q8_k.h"

#include <cstring>

#include "quant/fit.h"

namespace ondol::quant {

void dequantize(const BlockQ8_K& block, float* out) {
  float d = 0;
  std::memcpy(&d, block.d, sizeof(d));
  for (size_t i = 0; i < 256; ++i) out[i] = d * static_cast<float>(block.quants[i]);
}

void quantize(const float* values, BlockQ8_K& block) {
  float largest = 0;
  for (size_t i = 0; i < 256; ++i) largest = std::max(largest, std::abs(values[i]));
  const float d = largest < kSmallest ? 0.0f : largest / 127.0f;
  const float inverse = d > 0 ? 127.0f / largest : 0.0f;
  std::memcpy(block.d, &d, sizeof(d));
  constexpr IntegerLevels kLevels{-127, 127};
  for (size_t j = 0; j < 16; ++j) {
    int sum = 0;
    for (size_t i = 16 * j; i < 16 * (j + 1); ++i) {
      block.quants[i] = static_cast<int8_t>(kLevels.nearest(values[i] * inverse));
      sum += block.quants[i];
    }
    const auto stored = static_cast<int16_t>(sum);
    std::memcpy(block.sums[j], &stored, sizeof(stored));
  }
}

}  // namespace ondol::quant
