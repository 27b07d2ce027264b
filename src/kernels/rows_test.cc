// The row-wise operations of every instruction set against loops in double.
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/rope_table.h"
#include "kernels/testing.h"
#include "simd/half.h"

namespace ondol::kernels::test {
namespace {

class RowsTest : public EachIsa {};
INSTANTIATE_TEST_SUITE_P(Isa, RowsTest, testing::ValuesIn(all_isas()), isa_test_name);

double silu(double x) { return x / (1.0 + std::exp(-x)); }
double gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST_P(RowsTest, RmsNorm) {
  ThreadTeam team(2);
  const auto ops = make_cpu_ops(GetParam(), team);
  Random random(1);
  for (const int width : {1, 3, 8, 17, 31, 32, 576, 1000}) {
    Table x = random.table(5, width, 3.0f);
    Table out(5, width);
    const auto weight = random.vector(static_cast<size_t>(width));
    for (const bool weighted : {true, false}) {
      ops->rms_norm(out.rows(), x.rows(), weighted ? weight.data() : nullptr, 1e-5f);
      for (int i = 0; i < 5; ++i) {
        double sum = 0;
        for (int j = 0; j < width; ++j) sum += double{x.at(i, j)} * x.at(i, j);
        const double factor = 1.0 / std::sqrt(sum / width + 1e-5);
        for (int j = 0; j < width; ++j) {
          const double expected =
              x.at(i, j) * factor * (weighted ? weight[static_cast<size_t>(j)] : 1.0f);
          ASSERT_NEAR(out.at(i, j), expected, 2e-6 * std::abs(expected) + 1e-12)
              << width << " " << i << " " << j;
        }
      }
    }
    ops->rms_norm(x.rows(), x.rows(), nullptr, 1e-5f);  // in place
    EXPECT_TRUE(same_bits(x, out));
  }
}

TEST_P(RowsTest, RmsNormOfHeadsIsThatOfRows) {
  ThreadTeam team(1);
  const auto ops = make_cpu_ops(GetParam(), team);
  Random random(2);
  for (const int dim : {20, 64, 128}) {
    Table x = random.table(3, 4 * dim);
    const auto weight = random.vector(static_cast<size_t>(dim));
    Table expected(3, 4 * dim);
    for (int h = 0; h < 4; ++h) {
      ops->rms_norm(expected.rows().cols(h * dim, dim), x.rows().cols(h * dim, dim), weight.data(),
                    1e-6f);
    }
    ops->rms_norm_heads(x.rows(), 4, weight.data(), 1e-6f);
    EXPECT_TRUE(same_bits(x, expected));
  }
}

TEST_P(RowsTest, ElementwiseFunctions) {
  ThreadTeam team(3);
  const auto ops = make_cpu_ops(GetParam(), team);
  Random random(3);
  for (const int width : {1, 7, 8, 9, 100, 9001}) {
    Table x = random.table(3, width, 5.0f);
    Table y = random.table(3, width);
    Table sum = x;
    Table scaled = x;
    Table capped = x;
    Table swiglu = x;
    Table geglu = x;
    ops->add(sum.rows(), y.rows());
    ops->scale(scaled.rows(), 0.3f);
    ops->softcap(capped.rows(), 7.0f);
    ops->silu_mul(swiglu.rows(), y.rows());
    ops->gelu_mul(geglu.rows(), y.rows());
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < width; ++j) {
        const double a = x.at(i, j);
        const double b = y.at(i, j);
        ASSERT_EQ(sum.at(i, j), x.at(i, j) + y.at(i, j));
        ASSERT_EQ(scaled.at(i, j), x.at(i, j) * 0.3f);
        ASSERT_NEAR(capped.at(i, j), 7.0 * std::tanh(a / 7.0), 5e-7 * std::abs(a));
        ASSERT_NEAR(swiglu.at(i, j), silu(a) * b, 1e-6 * std::abs(silu(a) * b) + 1e-12);
        ASSERT_NEAR(geglu.at(i, j), gelu(a) * b, 3e-6 * std::abs(gelu(a) * b) + 1e-7);
      }
    }
  }
}

TEST_P(RowsTest, FunctionsAtTheirLimits) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {0.0f, -0.0f, 1e-30f, -1e-30f, 100.0f, -100.0f,
                          1e4f, -1e4f, kInf,   88.0f,   -88.0f};
  const std::vector<float> one(x.size(), 1.0f);
  const auto n = static_cast<int64_t>(x.size());
  std::vector<float> s = x;
  leaf().silu_mul(s.data(), one.data(), n);
  std::vector<float> g = x;
  leaf().gelu_mul(g.data(), one.data(), n);
  std::vector<float> t = x;
  leaf().softcap(t.data(), 30.0f, n);
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected_silu = x[i] == kInf ? kInf : silu(x[i]);
    const double expected_cap = 30.0 * std::tanh(x[i] / 30.0);
    if (std::isinf(expected_silu)) {
      EXPECT_EQ(s[i], kInf);
      EXPECT_EQ(g[i], kInf);
    } else {
      EXPECT_NEAR(s[i], expected_silu, 1e-6 * std::abs(expected_silu) + 1e-34) << x[i];
      EXPECT_NEAR(g[i], gelu(x[i]), 1e-6 * std::abs(gelu(x[i])) + 1e-34) << x[i];
    }
    EXPECT_NEAR(t[i], expected_cap, 5e-7 * std::abs(expected_cap)) << x[i];
  }
  std::vector<float> nan(3, std::numeric_limits<float>::quiet_NaN());
  leaf().silu_mul(nan.data(), one.data(), 3);
  EXPECT_TRUE(std::isnan(nan[0]) && std::isnan(nan[2]));
}

RopeParams scaled_rope(int kind, const std::vector<float>& factors) {
  RopeParams p;
  p.freq_base = 500.0f;
  if (kind == 1) p.freq_scale = 0.25f;
  if (kind == 2) p.freq_factors = factors.data();
  if (kind == 3) {
    p.freq_scale = 0.125f;
    p.yarn_ext_factor = 1.0f;
    p.original_ctx = 256;
    p.attn_factor = 1.2f;
  }
  return p;
}

TEST_P(RowsTest, RopeTurnsEachPair) {
  ThreadTeam team(2);
  const auto ops = make_cpu_ops(GetParam(), team);
  Random random(4);
  std::vector<float> factors(64);
  for (float& f : factors) f = 1.0f + std::abs(random.normal());
  const std::vector<int32_t> positions = {0, 1, 5, 1000, 131071, 7};
  for (const int dim : {32, 80, 128}) {
    for (const int n_rot : {dim, dim / 2, 6}) {
      for (int kind = 0; kind < 8; ++kind) {
        RopeParams p = scaled_rope(kind / 2, factors);
        p.n_rot = n_rot;
        p.style = kind % 2 == 0 ? RopeStyle::kInterleaved : RopeStyle::kHalves;
        const Table x = random.table(6, 3 * dim);
        Table in = x;
        Table out = x;
        ops->rope(out.rows(), 3, p, positions);
        const auto frequencies = rope_frequencies(p);
        for (int i = 0; i < 6; ++i) {
          for (int h = 0; h < 3; ++h) {
            for (int k = 0; k < n_rot / 2; ++k) {
              const bool halves = p.style == RopeStyle::kHalves;
              const int a = h * dim + (halves ? k : 2 * k);
              const int b = halves ? a + n_rot / 2 : a + 1;
              const double angle =
                  positions[static_cast<size_t>(i)] * frequencies[static_cast<size_t>(k)];
              const double c = std::cos(angle) * p.attn_factor;
              const double s = std::sin(angle) * p.attn_factor;
              ASSERT_NEAR(out.at(i, a), in.at(i, a) * c - in.at(i, b) * s, 2e-6);
              ASSERT_NEAR(out.at(i, b), in.at(i, a) * s + in.at(i, b) * c, 2e-6);
            }
            for (int k = n_rot; k < dim; ++k)
              ASSERT_EQ(out.at(i, h * dim + k), in.at(i, h * dim + k));
          }
        }
      }
    }
  }
}

TEST_P(RowsTest, HalvesAndQuantisedKeysAreStoredAsTheReferenceDoes) {
  Random random(5);
  const Leaf& reference = *find_leaf(simd::Isa::kScalar);
  for (const KvType type : {KvType::kF16, KvType::kQ8_0, KvType::kF32}) {
    for (const int dim : {32, 96, 256}) {
      const auto x = random.vector(static_cast<size_t>(dim), 10.0f);
      std::vector<uint8_t> own(kPageTokens * kv_row_bytes(type, dim), 0xff);
      std::vector<uint8_t> expected = own;
      for (const int slot : {0, 3, 15}) {
        leaf().store_key(type, own.data(), slot, x.data(), dim);
        reference.store_key(type, expected.data(), slot, x.data(), dim);
        EXPECT_EQ(own, expected);
      }
      for (const int slot : {0, 3, 15}) {
        leaf().store_value(type, own.data(), slot, x.data(), dim);
        reference.store_value(type, expected.data(), slot, x.data(), dim);
        EXPECT_EQ(own, expected);
      }
    }
  }
  const auto x = random.vector(13, 10.0f);
  std::vector<uint8_t> keys(size_t{13} * kPageTokens * 2);
  std::vector<uint8_t> values(keys.size());
  leaf().store_key(KvType::kF16, keys.data(), 5, x.data(), 13);
  leaf().store_value(KvType::kF16, values.data(), 5, x.data(), 13);
  for (size_t i = 0; i < 13; ++i) {
    uint16_t half = 0;
    std::memcpy(&half, keys.data() + 2 * (i * kPageTokens + 5), 2);
    EXPECT_EQ(half, simd::float_to_half(x[i]));
    std::memcpy(&half, values.data() + 2 * (5 * 13 + i), 2);
    EXPECT_EQ(half, simd::float_to_half(x[i]));
  }
}

TEST(RopeTable, YarnKeepsFastPairsAndInterpolatesSlowOnes) {
  RopeParams p;
  p.n_rot = 128;
  p.freq_scale = 0.25f;
  p.yarn_ext_factor = 1.0f;
  p.original_ctx = 32768;
  const auto scaled = rope_frequencies(p);
  p.yarn_ext_factor = 0.0f;
  p.freq_scale = 1.0f;
  const auto plain = rope_frequencies(p);
  for (size_t i = 0; i < plain.size(); ++i) {
    const double turns = 32768 * plain[i] / (2 * M_PI);  // within the original context
    const double ratio = scaled[i] / plain[i];
    if (turns > 40) {
      EXPECT_DOUBLE_EQ(ratio, 1.0) << i;
    }
    if (turns < 0.8) {
      EXPECT_DOUBLE_EQ(ratio, 0.25) << i;
    }
    if (i > 0) {
      EXPECT_LE(scaled[i], scaled[i - 1]);
    }
  }
}

TEST(Half, RoundTripsEveryHalfAndRoundsToEven) {
  for (uint32_t h = 0; h < 65536; ++h) {
    const float value = simd::half_to_float(static_cast<uint16_t>(h));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(simd::half_to_float(simd::float_to_half(value))));
      continue;
    }
    ASSERT_EQ(simd::float_to_half(value), h);
    if ((h & 0x7fffu) >= 0x7bffu) continue;
    const float next = simd::half_to_float(static_cast<uint16_t>(h + 1));
    const float middle = value + (next - value) / 2;
    ASSERT_EQ(simd::float_to_half(middle), (h & 1u) == 0 ? h : h + 1);
  }
  EXPECT_EQ(simd::float_to_half(65519.0f), 0x7bff);
  EXPECT_EQ(simd::float_to_half(65520.0f), 0x7c00);
}

TEST_P(RowsTest, GatherCopiesRows) {
  ThreadTeam team(1);
  const auto ops = make_cpu_ops(GetParam(), team);
  Random random(6);
  Table x = random.table(5, 9);
  Table out(3, 9);
  const int32_t rows[] = {4, 0, 4};
  ops->gather(out.rows(), x.rows(), rows);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 9; ++j) EXPECT_EQ(out.at(i, j), x.at(rows[i], j));
  }
}

}  // namespace
}  // namespace ondol::kernels::test
