#include "quant/q5_1.h"

#include "quant/fit.h"
#include "quant/half.h"
#include "quant/nibbles.h"

namespace ondol::quant {

void dequantize(const BlockQ5_1& block, float* out) {
  const float d = load_f16(block.d);
  const float m = load_f16(block.m);
  const Codes32 codes = unpack_five_bits(block.quants, block.high);
  for (size_t i = 0; i < 32; ++i) out[i] = static_cast<float>(codes[i]) * d + m;
}

void quantize(const float* values, BlockQ5_1& block) {
  constexpr int kHighest = 31;
  const Affine fitted = fit_affine(std::span(values, 32), kHighest, false);
  store_f16(to_half_finite(fitted.scale), block.d);
  store_f16(to_half_finite(fitted.min), block.m);
  const Affine stored{load_f16(block.d), load_f16(block.m)};
  Codes32 codes;
  for (size_t i = 0; i < 32; ++i) {
    codes[i] = static_cast<uint8_t>(stored.nearest(values[i], kHighest));
  }
  pack_five_bits(codes, block.quants, block.high);
}

}  // namespace ondol::quant
