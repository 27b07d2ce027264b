#include "quant/q5_0.h"

#include "quant/fit.h"
#include "quant/half.h"
#include "quant/nibbles.h"

namespace ondol::quant {

void dequantize(const BlockQ5_0& block, float* out) {
  const float d = load_f16(block.d);
  const Codes32 codes = unpack_five_bits(block.quants, block.high);
  for (size_t i = 0; i < 32; ++i) out[i] = static_cast<float>(codes[i] - 16) * d;
}

void quantize(const float* values, BlockQ5_0& block) {
  constexpr IntegerLevels kLevels{-16, 15};
  store_f16(to_half_finite(fit_scale(std::span(values, 32), kLevels)), block.d);
  const float inverse = inverse_scale(load_f16(block.d));
  Codes32 codes;
  for (size_t i = 0; i < 32; ++i) {
    codes[i] = static_cast<uint8_t>(kLevels.nearest(values[i] * inverse) + 16);
  }
  pack_five_bits(codes, block.quants, block.high);
}

}  // namespace ondol::quant
