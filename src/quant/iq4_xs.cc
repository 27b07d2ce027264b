#include "quant/iq4_xs.h"

#include "quant/fit.h"
#include "quant/half.h"
#include "quant/nibbles.h"

namespace ondol::quant {

void dequantize(const BlockIQ4_XS& block, float* out) {
  const float d = load_f16(block.d);
  for (size_t j = 0; j < 8; ++j) {
    const int low = (block.scales_low[j / 2] >> (j % 2 * 4)) & 15;
    const int high = (block.scales_high[j / 4] >> (j % 4 * 2)) & 3;
    const float scale = d * static_cast<float>((low | (high << 4)) - 32);
    const Codes32 codes = unpack_nibbles(block.quants + 16 * j);
    for (size_t i = 0; i < 32; ++i) {
      out[32 * j + i] = scale * static_cast<float>(kIq4Levels[codes[i]]);
    }
  }
}

void quantize(const float* values, BlockIQ4_XS& block) {
  const TableLevels levels{kIq4Levels};
  const ScaledSuperBlock fitted = fit_scaled_super_block(values, 32, levels, -32);
  block = {};
  store_f16(fitted.d, block.d);
  for (size_t j = 0; j < 8; ++j) {
    const int scale = fitted.scale[j] + 32;
    uint8_t& low = block.scales_low[j / 2];
    low = static_cast<uint8_t>(low | ((scale & 15) << (j % 2 * 4)));
    uint8_t& high = block.scales_high[j / 4];
    high = static_cast<uint8_t>(high | ((scale >> 4) << (j % 4 * 2)));
    Codes32 codes;
    for (size_t i = 0; i < 32; ++i) {
      codes[i] = static_cast<uint8_t>(levels.nearest_index(fitted.level[32 * j + i]));
    }
    pack_nibbles(codes, block.quants + 16 * j);
  }
}

}  // namespace ondol::quant
