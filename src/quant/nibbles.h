// Thread rule: pure functions.
//
// The packings that 32-value blocks share: code i in the low and code i + 16 in the high half of
// byte i; a fifth bit of code i as bit i of a little-endian number.
#pragma once

#include <array>
#include <cstdint>

namespace ondol::quant {

using Codes32 = std::array<uint8_t, 32>;

constexpr Codes32 unpack_nibbles(const uint8_t* packed) {
  Codes32 codes{};
  for (size_t i = 0; i < 16; ++i) {
    codes[i] = packed[i] & 15;
    codes[i + 16] = packed[i] >> 4;
  }
  return codes;
}

/// The low four bits of each code.
constexpr void pack_nibbles(const Codes32& codes, uint8_t* packed) {
  for (size_t i = 0; i < 16; ++i) {
    packed[i] = static_cast<uint8_t>((codes[i] & 15) | ((codes[i + 16] & 15) << 4));
  }
}

constexpr Codes32 unpack_five_bits(const uint8_t* packed, const uint8_t* high) {
  Codes32 codes = unpack_nibbles(packed);
  for (size_t i = 0; i < 32; ++i) {
    codes[i] = static_cast<uint8_t>(codes[i] | (((high[i / 8] >> (i % 8)) & 1) << 4));
  }
  return codes;
}

constexpr void pack_five_bits(const Codes32& codes, uint8_t* packed, uint8_t* high) {
  pack_nibbles(codes, packed);
  for (size_t k = 0; k < 4; ++k) {
    high[k] = 0;
    for (size_t i = 0; i < 8; ++i) {
      high[k] = static_cast<uint8_t>(high[k] | ((codes[8 * k + i] >> 4) << i));
    }
  }
}

}  // namespace ondol::quant
