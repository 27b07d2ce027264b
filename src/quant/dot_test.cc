#include "quant/dot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "quant/dot_test_leaves.h"
#include "quant/formats.h"
#include "simd/isa.h"
#include "support/support.h"

namespace ondol::quant {
namespace {

struct Leaf {
  simd::Isa isa;
  DotLeaf dot;
};
constexpr Leaf kLeaves[] = {
    {simd::Isa::kScalar, dot_scalar},
#if defined(__x86_64__)
    {simd::Isa::kAvx2, dot_avx2},     {simd::Isa::kAvxVnni, dot_avxvnni},
    {simd::Isa::kAvx512, dot_avx512}, {simd::Isa::kAvx512Vnni, dot_avx512vnni},
#elif defined(__aarch64__)
    {simd::Isa::kNeon, dot_neon},
#endif
};

/// A column of activations, quantised to int8 with a scale per `group` values.
struct Column {
  std::vector<int8_t> q;
  std::vector<float> scales;
  std::vector<int16_t> sums;
  std::vector<float> offsets;
  Column(const std::vector<float>& x, size_t group) : q(x.size()), sums(x.size() / 16) {
    for (size_t start = 0; start < x.size(); start += group) {
      float largest = 0;
      for (size_t i = start; i < start + group; ++i) largest = std::max(largest, std::abs(x[i]));
      scales.push_back(largest / 127.0f);
      int sum = 0;
      for (size_t i = start; i < start + group; ++i) {
        q[i] = static_cast<int8_t>(std::lround(x[i] / largest * 127.0f));
        sums[i / 16] = static_cast<int16_t>(sums[i / 16] + q[i]);
        sum += q[i];
      }
      offsets.push_back(scales.back() * static_cast<float>(sum));
    }
  }
  Acts acts() const { return {q.data(), scales.data(), sums.data(), offsets.data()}; }
};

/// Some rows of random weights in a format; every bit pattern but those of scales is in use in the
/// reference blocks, which this reads where there are any.
std::vector<std::byte> some_rows(const Format& format, size_t columns, int rows) {
  const std::string path = test::data_path("quants/" + std::string(format.name) + ".bin");
  const size_t n = columns * static_cast<size_t>(rows);
  std::vector<std::byte> blocks(n / format.block_values * format.block_bytes);
  std::vector<float> values(n);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  format.quantize(values, blocks.data());
  if (format.name == "Q8_K") return blocks;  // never in a file
  const std::string data = test::read_file(path);
  constexpr size_t kHeader = 3 * sizeof(uint32_t);
  std::memcpy(blocks.data(), data.data() + kHeader,
              columns / format.block_values * format.block_bytes);
  return blocks;
}

class Dot : public testing::TestWithParam<Leaf> {
 protected:
  void SetUp() override {
    for (const simd::IsaInfo& info : simd::isas()) {
      if (info.isa == GetParam().isa && info.supported) return;
    }
    GTEST_SKIP() << "this CPU has no " << simd::isa_name(GetParam().isa);
  }
};
INSTANTIATE_TEST_SUITE_P(Quant, Dot, testing::ValuesIn(kLeaves), [](const auto& test) {
  return std::string(simd::isa_name(test.param.isa));
});

/// All products of `rows` rows with `n_columns` columns against double precision.
void check(const Format& format, DotLeaf dot, int rows, int n_columns) {
  constexpr size_t kWidth = 1024;
  const std::vector<std::byte> blocks = some_rows(format, kWidth, rows);
  std::vector<float> weights(kWidth * static_cast<size_t>(rows));
  format.dequantize(blocks.data(), weights);
  const size_t group = format.block_values;
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0.1f, 1.0f);
  std::vector<Column> columns;
  std::vector<Acts> acts;
  for (int c = 0; c < n_columns; ++c) {
    std::vector<float> x(kWidth);
    for (float& value : x) value = normal(random);
    columns.emplace_back(x, group);
  }
  for (const Column& column : columns) acts.push_back(column.acts());
  const size_t row_bytes = kWidth / format.block_values * format.block_bytes;
  const std::string name(format.name);
  for (int r = 0; r < rows; ++r) {
    std::vector<float> out(static_cast<size_t>(n_columns));
    const size_t row = static_cast<size_t>(r);
    const DotCall call{name.c_str(),
                       blocks.data() + row * row_bytes,
                       static_cast<int64_t>(kWidth / format.block_values),
                       acts.data(),
                       n_columns,
                       out.data()};
    ASSERT_TRUE(dot(call)) << name;
    for (size_t c = 0; c < out.size(); ++c) {
      double exact = 0;
      double size = 0;
      for (size_t i = 0; i < kWidth; ++i) {
        const double term = double{weights[row * kWidth + i]} * columns[c].q[i] *
                            double{columns[c].scales[i / group]};
        exact += term;
        size += std::abs(term);
      }
      EXPECT_NEAR(out[c], exact, 1e-6 * size) << name << " row " << r << " column " << c;
      // A column's bits do not depend on which columns stand beside it.
      float alone = 0;
      DotCall single = call;
      single.acts = &acts[c];
      single.n_columns = 1;
      single.out = &alone;
      ASSERT_TRUE(dot(single));
      EXPECT_EQ(alone, out[c]) << name << " row " << r << " column " << c;
    }
  }
}

TEST_P(Dot, AgreesWithDoublePrecision) {
  for (const Format& format : formats()) {
    if (format.dequantize == nullptr || format.block_values == 1) continue;
    for (int n_columns = 1; n_columns <= 9; ++n_columns) {
      check(format, GetParam().dot, n_columns % 2 == 0 ? 3 : 1, n_columns);
    }
  }
}

/// Blocks whose every code and stored scale has the same bits, under float scales of 1.
std::vector<std::byte> uniform_blocks(const Format& format, size_t width, uint8_t pattern) {
  // Float scales are those bytes that change with the size of the weights but not with their ratio.
  std::vector<float> ramp(width);
  for (size_t i = 0; i < width; ++i) ramp[i] = static_cast<float>(i % 32) - 12.0f;
  std::vector<std::byte> blocks(width / format.block_values * format.block_bytes);
  format.quantize(ramp, blocks.data());
  for (float& value : ramp) value *= 4.0f;
  std::vector<std::byte> larger(blocks.size());
  format.quantize(ramp, larger.data());
  // A binary16 has its exponent in the upper byte; the lower one stands before it.
  std::vector<std::byte> uniform(blocks.size(), std::byte{pattern});
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i] == larger[i]) continue;
    uniform[i] = blocks[i];
    if (i % format.block_bytes > 0) uniform[i - 1] = blocks[i - 1];
  }
  return uniform;
}

/// The outermost codes against the outermost activations: no step may overflow or saturate.
TEST_P(Dot, HoldsTheExtremes) {
  constexpr size_t kWidth = 512;
  for (const Format& format : formats()) {
    if (format.dequantize == nullptr || format.block_values == 1) continue;
    for (const uint8_t pattern : {uint8_t{0x00}, uint8_t{0xff}, uint8_t{0x80}, uint8_t{0x7f}}) {
      const std::vector<std::byte> blocks = uniform_blocks(format, kWidth, pattern);
      std::vector<float> weights(kWidth);
      format.dequantize(blocks.data(), weights);
      for (const float sign : {1.0f, -1.0f}) {
        const Column column(std::vector<float>(kWidth, sign), format.block_values);
        double exact = 0;
        double size = 0;
        for (size_t i = 0; i < kWidth; ++i) {
          ASSERT_TRUE(std::isfinite(weights[i])) << format.name;
          const double term = double{weights[i]} * column.q[i] * double{column.scales[0]};
          exact += term;
          size += std::abs(term);
        }
        float out = 0;
        const Acts acts = column.acts();
        const std::string name(format.name);
        const auto n_blocks = static_cast<int64_t>(kWidth / format.block_values);
        ASSERT_TRUE(GetParam().dot({name.c_str(), blocks.data(), n_blocks, &acts, 1, &out}));
        // Where codes are lifted to be unsigned, taking the lift back rounds even if all are zero.
        constexpr double kLift = 1e-7 * kWidth;
        EXPECT_NEAR(out, exact, 2e-6 * size + kLift) << name << " pattern " << int{pattern};
      }
    }
  }
}

}  // namespace
}  // namespace ondol::quant
