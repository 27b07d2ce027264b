#include "quant/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ondol::quant {
namespace {

/// The value of a binary16 by its definition.
double meaning(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int fraction = half & 1023;
  const double sign = (half & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Half, EveryNumberIsReadExactlyAndComesBack) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto half = static_cast<uint16_t>(i);
    const float value = half_to_float(half);
    if (std::isnan(meaning(half))) {
      ASSERT_TRUE(std::isnan(value)) << i;
      ASSERT_TRUE(std::isnan(half_to_float(float_to_half(value)))) << i;
      continue;
    }
    ASSERT_EQ(value, meaning(half)) << i;
    ASSERT_EQ(std::signbit(value), (half & 0x8000) != 0) << i;
    ASSERT_EQ(float_to_half(value), half) << i;
    uint8_t bytes[2];
    store_f16(half, bytes);
    ASSERT_EQ(load_f16(bytes), value) << i;
  }
}

TEST(Half, RoundsToNearestTiesToEven) {
  // Between each pair of neighbours: the middle goes to the even one, what is beside it to the
  // nearer one.
  for (uint16_t half = 0; half < 0x7bff; ++half) {
    const float low = half_to_float(half);
    const float high = half_to_float(static_cast<uint16_t>(half + 1));
    const float middle = 0.5f * (low + high);  // exact
    const auto even = static_cast<uint16_t>(half + (half & 1));
    ASSERT_EQ(float_to_half(middle), even) << half;
    ASSERT_EQ(float_to_half(-middle), even | 0x8000) << half;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0f)), half) << half;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 1e9f)), half + 1) << half;
  }
}

TEST(Half, EndsOfTheRange) {
  EXPECT_EQ(float_to_half(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(INFINITY), 0x7c00);
  EXPECT_EQ(float_to_half(-INFINITY), 0xfc00);
  EXPECT_EQ(float_to_half(1e-40f), 0x0000);
  EXPECT_EQ(float_to_half(-1e-40f), 0x8000);
  EXPECT_EQ(float_to_half(0x1p-25f), 0x0000);
  EXPECT_EQ(to_half_finite(1e9f), 0x7bff);
  EXPECT_EQ(to_half_finite(-INFINITY), 0xfbff);
  EXPECT_EQ(to_half_finite(NAN), 0x0000);
  EXPECT_EQ(to_half_finite(-1.0f), 0xbc00);
}

TEST(Half, BFloat16) {
  EXPECT_EQ(bhalf_to_float(0x3f80), 1.0f);
  EXPECT_EQ(bhalf_to_float(0x0001), 0x1p-133f);
  EXPECT_EQ(f32_to_bf16(1.0f + 0x1p-8f), 0x3f80);            // tie: to even
  EXPECT_EQ(f32_to_bf16(1.0f + 0x1p-7f + 0x1p-8f), 0x3f82);  // tie: to even, upwards
  EXPECT_EQ(f32_to_bf16(1.0f + 0x1p-8f + 0x1p-20f), 0x3f81);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(bhalf_to_float(f32_to_bf16(NAN))));
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto value = static_cast<uint16_t>(i);
    if (!std::isnan(bhalf_to_float(value))) {
      ASSERT_EQ(f32_to_bf16(bhalf_to_float(value)), value);
    }
  }
}

TEST(Half, E8M0) {
  EXPECT_EQ(e8m0_to_f32(127), 1.0f);
  EXPECT_EQ(e8m0_to_f32(0), 0x1p-127f);
  EXPECT_EQ(e8m0_to_f32(1), 0x1p-126f);
  EXPECT_EQ(e8m0_to_f32(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(e8m0_to_f32(255)));
}

}  // namespace
}  // namespace ondol::quant
