#include "quant/q6_k.h"

#include "quant/fit.h"
#include "quant/half.h"

namespace ondol::quant {

void dequantize(const BlockQ6_K& block, float* out) {
  const float d = load_f16(block.d);
  for (size_t i = 0; i < 256; ++i) {
    const size_t half = i / 128;
    const size_t sixteen = i / 16;
    const int low = (block.low[64 * half + i % 64] >> (i % 128 / 64 * 4)) & 15;
    const int high = (block.high[32 * half + i % 32] >> (i % 128 / 32 * 2)) & 3;
    out[i] = (d * static_cast<float>(block.scales[sixteen])) *
             static_cast<float>((low | (high << 4)) - 32);
  }
}

void quantize(const float* values, BlockQ6_K& block) {
  const ScaledSuperBlock fitted = fit_scaled_super_block(values, 16, IntegerLevels{-32, 31}, -128);
  block = {};
  store_f16(fitted.d, block.d);
  std::ranges::copy(fitted.scale, block.scales);
  for (size_t i = 0; i < 256; ++i) {
    const size_t half = i / 128;
    const int q = fitted.level[i] + 32;
    uint8_t& low = block.low[64 * half + i % 64];
    uint8_t& high = block.high[32 * half + i % 32];
    low = static_cast<uint8_t>(low | ((q & 15) << (i % 128 / 64 * 4)));
    high = static_cast<uint8_t>(high | ((q >> 4) << (i % 128 / 32 * 2)));
  }
}

}  // namespace ondol::quant
