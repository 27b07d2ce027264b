#include "quant/iq4_nl.h"

#include "quant/fit.h"
#include "quant/half.h"
#include "quant/nibbles.h"

namespace ondol::quant {

void dequantize(const BlockIQ4_NL& block, float* out) {
  const float d = load_f16(block.d);
  const Codes32 codes = unpack_nibbles(block.quants);
  for (size_t i = 0; i < 32; ++i) out[i] = d * static_cast<float>(kIq4Levels[codes[i]]);
}

void quantize(const float* values, BlockIQ4_NL& block) {
  const TableLevels levels{kIq4Levels};
  store_f16(to_half_finite(fit_scale(std::span(values, 32), levels)), block.d);
  const float inverse = inverse_scale(load_f16(block.d));
  Codes32 codes;
  for (size_t i = 0; i < 32; ++i) {
    codes[i] = static_cast<uint8_t>(levels.nearest_index(values[i] * inverse));
  }
  pack_nibbles(codes, block.quants);
}

}  // namespace ondol::quant
