// Thread rule: pure functions.
#pragma once

#include <cstdint>

namespace ondol::quant {

/// The eight scales and eight minima (six bits each, 0 .. 63) of Q4_K and Q5_K in 12 bytes. For j <
/// 4:
///   packed[j]      bits 0-5  scale[j]               bits 6-7  high two bits of scale[j + 4]
///   packed[j + 4]  bits 0-5  min[j]                 bits 6-7  high two bits of min[j + 4]
///   packed[j + 8]  bits 0-3  low half of scale[j+4] bits 4-7  low half of min[j + 4]
struct KScales {
  uint8_t packed[12];

  constexpr void unpack(uint8_t (&scale)[8], uint8_t (&min)[8]) const {
    for (int j = 0; j < 4; ++j) {
      const int a = packed[j];
      const int b = packed[j + 4];
      const int c = packed[j + 8];
      scale[j] = static_cast<uint8_t>(a & 63);
      min[j] = static_cast<uint8_t>(b & 63);
      scale[j + 4] = static_cast<uint8_t>((c & 15) | ((a >> 6) << 4));
      min[j + 4] = static_cast<uint8_t>((c >> 4) | ((b >> 6) << 4));
    }
  }

  constexpr void pack(const uint8_t* scale, const uint8_t* min) {
    for (int j = 0; j < 4; ++j) {
      packed[j] = static_cast<uint8_t>(scale[j] | ((scale[j + 4] >> 4) << 6));
      packed[j + 4] = static_cast<uint8_t>(min[j] | ((min[j + 4] >> 4) << 6));
      packed[j + 8] = static_cast<uint8_t>((scale[j + 4] & 15) | ((min[j + 4] & 15) << 4));
    }
  }
};

}  // namespace ondol::quant
