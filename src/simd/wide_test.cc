#include "simd/wide_test.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "simd/isa.h"

namespace ondol::simd::test {

extern const WideTests wide_tests_scalar;
#if defined(__x86_64__)
extern const WideTests wide_tests_avx2;
extern const WideTests wide_tests_avxvnni;
extern const WideTests wide_tests_avx512;
extern const WideTests wide_tests_avx512vnni;
#elif defined(__aarch64__)
extern const WideTests wide_tests_neon;
#endif

namespace {

const WideTests* find_tests(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::kAvx2:
      return &wide_tests_avx2;
    case Isa::kAvxVnni:
      return &wide_tests_avxvnni;
    case Isa::kAvx512:
      return &wide_tests_avx512;
    case Isa::kAvx512Vnni:
      return &wide_tests_avx512vnni;
#elif defined(__aarch64__)
    case Isa::kNeon:
      return &wide_tests_neon;
#endif
    default:
      return &wide_tests_scalar;
  }
}

class Maker {
 public:
  explicit Maker(uint32_t seed) : engine_(seed) {}

  std::unique_ptr<WideInput> input() {
    auto in = std::make_unique<WideInput>();
    for (int i = 0; i < kLanesOfAll; ++i) {
      in->a[i] = integer();
      in->b[i] = integer();
      in->small[i] = static_cast<int16_t>(integer());
      in->x[i] = number();
      in->y[i] = number();
      in->z[i] = number();
      in->whole[i] = static_cast<float>(below(121) - 60);
      in->moderate[i] = std::ldexp(below(2) ? 1.0f + unit() : -1.0f - unit(), below(121) - 60);
      in->near[i] =
          below(2) ? static_cast<float>(below(2001) - 1000) / 4.0f : std::ldexp(unit(), below(31));
    }
    for (uint8_t& byte : in->rows) byte = this->byte();
    for (uint8_t& byte : in->table) byte = this->byte();
    for (auto& group : in->codes) {
      for (uint8_t& code : group) code = this->byte();
      std::memset(group, 0x80, 8);      // -128, the least of signed codes
      std::memset(group + 8, 0x7f, 8);  // the largest code of each format
    }
    const int kind = below(3);
    for (int8_t& act : in->acts)
      act = static_cast<int8_t>(kind == 0 ? below(255) - 127 : (kind == 1 ? 127 : -127));
    for (int16_t& one : in->pairs) one = static_cast<int16_t>(below(2) ? integer() : INT16_MIN);
    in->a[0] = static_cast<int32_t>(0x80008000);  // both int16 the least
    return in;
  }

 private:
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(engine_); }
  uint8_t byte() { return static_cast<uint8_t>(below(256)); }
  float unit() { return std::uniform_real_distribution<float>(0.0f, 1.0f)(engine_); }
  int32_t integer() {
    constexpr int32_t kEdges[] = {0, 1, -1, INT32_MIN, INT32_MAX, INT16_MIN, INT16_MAX, 0x7fff7fff};
    return below(4) == 0 ? kEdges[below(8)] : static_cast<int32_t>(engine_());
  }
  /// Any float: NaN, infinities, denormal and normal ones.
  float number() {
    using Limits = std::numeric_limits<float>;
    const float edges[] = {
        0.0f,          -0.0f,         Limits::quiet_NaN(),  -Limits::quiet_NaN(),
        Limits::max(), Limits::min(), Limits::infinity(),   -Limits::infinity(),
        1.0f,          -1.0f,         Limits::denorm_min(), -Limits::denorm_min()};
    switch (below(4)) {
      case 0:
        return edges[below(12)];
      case 1:
        return std::ldexp(unit(), -126);  // denormal
      case 2:
        return std::ldexp(unit() - 0.5f, below(250) - 125);
      default:
        return unit() - 0.5f;
    }
  }

  std::mt19937 engine_;
};

bool same(Compare compare, int32_t a, int32_t b) {
  if (compare == Compare::kBits) return a == b;
  const auto x = std::bit_cast<float>(a);
  const auto y = std::bit_cast<float>(b);
  return x == y || (std::isnan(x) && std::isnan(y));
}

class WideOf : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    const auto chosen = choose_isa(isa_name(GetParam()));
    if (!chosen) GTEST_SKIP() << chosen.error().message;
  }
};

TEST_P(WideOf, EveryFunctionIsTheReferences) {
  const WideTests& own = *find_tests(GetParam());
  ASSERT_EQ(own.count, wide_tests_scalar.count);
  Maker maker(11);
  for (int round = 0; round < 50; ++round) {
    const auto in = maker.input();
    for (int t = 0; t < own.count; ++t) {
      int32_t expected[kLanesOfAll];
      int32_t seen[kLanesOfAll];
      wide_tests_scalar.first[t].run(*in, expected);
      own.first[t].run(*in, seen);
      for (int i = 0; i < kLanesOfAll; ++i) {
        ASSERT_TRUE(same(own.first[t].compare, expected[i], seen[i]))
            << own.first[t].name << ", round " << round << ", lane " << i << std::hex
            << ": expected 0x" << expected[i] << ", got 0x" << seen[i];
      }
    }
  }
}

/// What the reference is itself checked against: plain C++ over the same lanes.
TEST_P(WideOf, PlainArithmeticAgrees) {
  const WideTests& own = *find_tests(GetParam());
  const auto in = Maker(12).input();
  const auto lanes_of = [&](std::string_view name) {
    std::array<int32_t, kLanesOfAll> out{};
    for (int t = 0; t < own.count; ++t) {
      if (own.first[t].name == name) own.first[t].run(*in, out.data());
    }
    return out;
  };
  const auto largest = lanes_of("fmax");
  const auto least = lanes_of("fmin");
  const auto whole = lanes_of("to_i32");
  const auto products = lanes_of("products of signed bytes");
  for (int i = 0; i < kLanesOfAll; ++i) {
    const float x = in->x[i];
    const float y = in->y[i];
    const bool unordered = std::isnan(x) || std::isnan(y);  // then the second argument
    EXPECT_TRUE(
        same(Compare::kFloats, largest[i], std::bit_cast<int32_t>(unordered || x <= y ? y : x)));
    EXPECT_TRUE(
        same(Compare::kFloats, least[i], std::bit_cast<int32_t>(unordered || x >= y ? y : x)));
    EXPECT_EQ(whole[i], static_cast<int32_t>(std::nearbyint(in->near[i]))) << in->near[i];
    int64_t sum = in->a[i];
    for (int k = 0; k < kGroups * 4; ++k)
      sum += std::bit_cast<int8_t>(in->codes[k / 4][i * 4 + k % 4]) * in->acts[k];
    EXPECT_EQ(products[i], static_cast<int32_t>(sum)) << "lane " << i;
  }
}

std::vector<Isa> all_isas() {
  std::vector<Isa> list;
  for (const IsaInfo& info : isas()) list.push_back(info.isa);
  return list;
}

INSTANTIATE_TEST_SUITE_P(Isa, WideOf, testing::ValuesIn(all_isas()),
                         [](const auto& test) { return std::string(isa_name(test.param)); });

}  // namespace
}  // namespace ondol::simd::test
