#include "quant/q4_k.h"

#include "quant/fit.h"
#include "quant/half.h"

namespace ondol::quant {

void dequantize(const BlockQ4_K& block, float* out) {
  const float d = load_f16(block.d);
  const float dmin = load_f16(block.dmin);
  uint64_t scales = 0;
  uint64_t mins = 0;
  block.scales.unpack(scales, mins);
  for (size_t j = 0; j < 8; ++j) {
    const float scale = d * static_cast<float>((scales >> (8 * j)) & 63);
    const float min = dmin * static_cast<float>((mins >> (8 * j)) & 63);
    for (size_t l = 0; l < 32; ++l) {
      const int q = (block.quants[j / 2 * 32 + l] >> (j % 2 * 4)) & 15;
      out[32 * j + l] = scale * static_cast<float>(q) - min;
    }
  }
}

void quantize(const float* values, BlockQ4_K& block) {
  const AffineSuperBlock fitted = fit_affine_super_block(values, 32, 15, 63);
  block = {};
  store_f16(fitted.d, block.d);
  store_f16(fitted.dmin, block.dmin);
  block.scales.pack(fitted.scale.data(), fitted.min.data());
  for (size_t i = 0; i < 256; ++i) {
    uint8_t& packed = block.quants[i / 64 * 32 + i % 32];
    packed = static_cast<uint8_t>(packed | (fitted.q[i] << (i % 64 / 32 * 4)));
  }
}

}  // namespace ondol::quant
