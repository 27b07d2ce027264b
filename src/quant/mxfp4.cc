#include "quant/mxfp4.h"

#include <cmath>

#include "quant/fit.h"
#include "quant/half.h"
#include "quant/nibbles.h"

namespace ondol::quant {

void dequantize(const BlockMXFP4& block, float* out) {
  const float scale = e8m0_to_f32(block.exponent) * 0.5f;
  const Codes32 codes = unpack_nibbles(block.quants);
  for (size_t i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(kE2m1Twice[codes[i]]);
}

void quantize(const float* values, BlockMXFP4& block) {
  // Sorted, as TableLevels wants them: magnitudes 6 .. 0.5 below zero, zero, 0.5 .. 6; twice, so
  // that they are whole.
  static constexpr int8_t kSorted[15] = {-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12};
  const TableLevels levels{kSorted};
  const std::span x(values, 32);
  float largest = 0;
  for (const float value : x) largest = std::max(largest, std::abs(value));
  block = {};
  if (largest < kSmallest) return;
  // The largest value falls into the top octave, 4 .. 6, or is cut to it where that costs the
  // others less.
  const int top = std::ilogb(largest) - 2;
  int chosen = top;
  float least = std::numeric_limits<float>::infinity();
  for (int exponent = top; exponent <= top + 1; ++exponent) {
    const float error = scaled_error(x, std::ldexp(0.5f, exponent), levels);
    if (error >= least) continue;
    least = error;
    chosen = exponent;
  }
  block.exponent = static_cast<uint8_t>(chosen + 127);
  const float inverse = std::ldexp(2.0f, -chosen);
  Codes32 codes;
  for (size_t i = 0; i < 32; ++i) {
    const int index = levels.nearest_index(x[i] * inverse) - 7;
    codes[i] = static_cast<uint8_t>(index < 0 ? 8 - index : index);
  }
  pack_nibbles(codes, block.quants);
}

}  // namespace ondol::quant
