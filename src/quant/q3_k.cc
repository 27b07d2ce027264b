#include "quant/q3_k.h"

#include "quant/fit.h"
#include "quant/half.h"

namespace ondol::quant {
namespace {

/// scale[j] - 32 of the sub-blocks.
std::array<int8_t, 16> unpack_scales(const uint8_t* packed) {
  std::array<int8_t, 16> scales{};
  for (size_t j = 0; j < 16; ++j) {
    const int low = (packed[j % 8] >> (j / 8 * 4)) & 15;
    const int high = (packed[8 + j % 4] >> (j / 4 * 2)) & 3;
    scales[j] = static_cast<int8_t>((low | (high << 4)) - 32);
  }
  return scales;
}

}  // namespace

void dequantize(const BlockQ3_K& block, float* out) {
  const float d = load_f16(block.d);
  const std::array<int8_t, 16> scales = unpack_scales(block.scales);
  for (size_t i = 0; i < 256; ++i) {
    const int low = (block.quants[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
    const int high = (block.high[i % 32] >> (i / 32)) & 1;
    out[i] = (d * static_cast<float>(scales[i / 16])) * static_cast<float>((low | (high << 2)) - 4);
  }
}

void quantize(const float* values, BlockQ3_K& block) {
  const ScaledSuperBlock fitted = fit_scaled_super_block(values, 16, IntegerLevels{-4, 3}, -32);
  block = {};
  store_f16(fitted.d, block.d);
  for (size_t j = 0; j < 16; ++j) {
    const int scale = fitted.scale[j] + 32;
    uint8_t& low = block.scales[j % 8];
    uint8_t& high = block.scales[8 + j % 4];
    low = static_cast<uint8_t>(low | ((scale & 15) << (j / 8 * 4)));
    high = static_cast<uint8_t>(high | ((scale >> 4) << (j / 4 * 2)));
  }
  for (size_t i = 0; i < 256; ++i) {
    const int q = fitted.level[i] + 4;
    uint8_t& low = block.quants[i / 128 * 32 + i % 32];
    uint8_t& high = block.high[i % 32];
    low = static_cast<uint8_t>(low | ((q & 3) << (i % 128 / 32 * 2)));
    high = static_cast<uint8_t>(high | ((q >> 2) << (i / 32)));
  }
}

}  // namespace ondol::quant
