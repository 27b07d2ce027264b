#include "quant/q4_0.h"

#include "quant/fit.h"
#include "quant/half.h"
#include "quant/nibbles.h"

namespace ondol::quant {

void dequantize(const BlockQ4_0& block, float* out) {
  const float d = load_f16(block.d);
  const Codes32 codes = unpack_nibbles(block.quants);
  for (size_t i = 0; i < 32; ++i) out[i] = static_cast<float>(codes[i] - 8) * d;
}

void quantize(const float* values, BlockQ4_0& block) {
  constexpr IntegerLevels kLevels{-8, 7};
  store_f16(to_half_finite(fit_scale(std::span(values, 32), kLevels)), block.d);
  const float inverse = inverse_scale(load_f16(block.d));
  Codes32 codes;
  for (size_t i = 0; i < 32; ++i) {
    codes[i] = static_cast<uint8_t>(kLevels.nearest(values[i] * inverse) + 8);
  }
  pack_nibbles(codes, block.quants);
}

}  // namespace ondol::quant
