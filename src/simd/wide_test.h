// Thread rule: test code, pure functions.
//
// Each function of `Wide` over arrays, so that vectors of any width have results to compare.
#pragma once

#include <cstdint>

namespace ondol::simd::test {

/// Lanes of every array: a whole number of vectors on every machine.
inline constexpr int kLanesOfAll = 256;
/// Bytes between neighbouring rows, odd on purpose.
inline constexpr int kStride = 37;
/// Groups of four products that are added to each lane.
inline constexpr int kGroups = 64;

struct WideInput {
  int32_t a[kLanesOfAll], b[kLanesOfAll];
  int32_t small[kLanesOfAll];  ///< within int16
  float x[kLanesOfAll], y[kLanesOfAll], z[kLanesOfAll];
  float whole[kLanesOfAll];     ///< whole numbers -60 .. 60
  float moderate[kLanesOfAll];  ///< normal, exponents -60 .. 60
  float near[kLanesOfAll];      ///< within int32
  uint8_t rows[kLanesOfAll * kStride];
  uint8_t table[16];
  uint8_t codes[kGroups][kLanesOfAll * 4];  ///< random bytes; extremes in some lanes
  int8_t acts[kGroups * 4];                 ///< -127 .. 127
  int16_t pairs[2];
};

enum class Compare : uint8_t {
  kBits,
  kFloats,  ///< equal numbers, or both NaN
};

struct WideTest {
  const char* name;
  Compare compare;
  /// Writes kLanesOfAll results, int32 or the bits of floats.
  void (*run)(const WideInput& in, int32_t* out);
};

struct WideTests {
  const WideTest* first;
  int count;
};

}  // namespace ondol::simd::test
