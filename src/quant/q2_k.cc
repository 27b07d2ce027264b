#include "quant/q2_k.h"

#include "quant/fit.h"
#include "quant/half.h"

namespace ondol::quant {

void dequantize(const BlockQ2_K& block, float* out) {
  const float d = load_f16(block.d);
  const float dmin = load_f16(block.dmin);
  for (size_t i = 0; i < 256; ++i) {
    const size_t half = i / 128;
    const int q = (block.quants[32 * half + i % 32] >> (i % 128 / 32 * 2)) & 3;
    const int scales = block.scales[i / 16];
    const float scale = d * static_cast<float>(scales & 15);
    const float min = dmin * static_cast<float>(scales >> 4);
    out[i] = scale * static_cast<float>(q) - min;
  }
}

void quantize(const float* values, BlockQ2_K& block) {
  const AffineSuperBlock fitted = fit_affine_super_block(values, 16, 3, 15);
  block = {};
  store_f16(fitted.d, block.d);
  store_f16(fitted.dmin, block.dmin);
  for (size_t j = 0; j < 16; ++j) {
    block.scales[j] = static_cast<uint8_t>(fitted.scale[j] | (fitted.min[j] << 4));
  }
  for (size_t i = 0; i < 256; ++i) {
    uint8_t& packed = block.quants[i / 128 * 32 + i % 32];
    packed = static_cast<uint8_t>(packed | (fitted.q[i] << (i % 128 / 32 * 2)));
  }
}

}  // namespace ondol::quant
