// The matrix products of every format and instruction set: against double, and bit for bit against
// themselves whatever comes beside a row.
#include <algorithm>

#include "kernels/testing.h"

namespace ondol::kernels::test {
namespace {

class MatmulTest : public EachIsa {};
INSTANTIATE_TEST_SUITE_P(Isa, MatmulTest, testing::ValuesIn(all_isas()), isa_test_name);

struct Weights {
  const quant::Format* format;
  std::vector<std::byte> bytes;
  Matrix matrix;
  std::vector<float> values;  ///< exactly what the blocks stand for
};

Weights random_weights(Random& random, const char* name, int64_t rows, int64_t cols) {
  Weights w;
  w.format = quant::find_format(name);
  const auto count = static_cast<size_t>(rows * cols);
  w.bytes.resize(count / w.format->block_values * w.format->block_bytes);
  w.format->quantize(random.vector(count, 0.5f), w.bytes.data());
  w.values.resize(count);
  w.format->dequantize(w.bytes.data(), w.values);
  w.matrix = {w.format->type, rows, cols, w.bytes.data()};
  return w;
}

/// What the kernels see of an input row, from the reference's quantisation.
std::vector<float> seen(quant::ActKind kind, const float* x, int n) {
  if (kind == quant::ActKind::kFloat) return {x, x + n};
  const auto size = static_cast<size_t>(n);
  std::vector<int8_t> q(size);
  std::vector<float> scales(size / 32);
  std::vector<int16_t> sums(size / 16);
  std::vector<float> offsets(size / 32);
  const Leaf& leaf = *find_leaf(simd::Isa::kScalar);
  const ActsOut out{q.data(), scales.data(), sums.data(), offsets.data()};
  const bool small = kind == quant::ActKind::kBlocks32;
  (small ? leaf.quantize32 : leaf.quantize256)(x, n, out);
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i) values[i] = scales[i / (small ? 32 : 256)] * q[i];
  return values;
}

int columns_of(const quant::Format& format, int blocks) {
  return format.block_values == 1 ? 8 * blocks + 5 : static_cast<int>(format.block_values) * blocks;
}

TEST_P(MatmulTest, EveryFormatAgainstDouble) {
  ThreadTeam team(2);
  const auto ops = make_cpu_ops(GetParam(), team);
  Random random(11);
  for (int d = 0; d < leaf().n_dots; ++d) {
    const LeafDot& dot = leaf().dots[d];
    for (const int blocks : {1, 2, 5}) {
      const int rows = 7 + blocks;
      const Weights w = random_weights(random, dot.format, rows,
                                       columns_of(*quant::find_format(dot.format), blocks));
      const int cols = static_cast<int>(w.matrix.cols);
      Table x = random.table(11, cols, 2.0f);
      const auto bias = random.vector(static_cast<size_t>(rows));
      Table out(11, rows);
      const MatmulJob job{out.rows(), w.matrix, blocks == 2 ? bias.data() : nullptr};
      ops->matmul({&job, 1}, x.rows());
      for (int c = 0; c < 11; ++c) {
        const auto in = seen(dot.acts, x.rows().row(c), cols);
        for (int r = 0; r < rows; ++r) {
          double sum = blocks == 2 ? bias[static_cast<size_t>(r)] : 0.0;
          double size = 0;
          for (int i = 0; i < cols; ++i) {
            const double product =
                double{w.values[static_cast<size_t>(r * cols + i)]} * in[static_cast<size_t>(i)];
            sum += product;
            size += std::abs(product);
          }
          ASSERT_NEAR(out.at(c, r), sum, 2e-6 * size + 1e-6)
              << dot.format << " row " << r << " column " << c;
        }
      }
    }
  }
}

TEST_P(MatmulTest, QuantisationIsTheReferences) {
  Random random(12);
  const Leaf& reference = *find_leaf(simd::Isa::kScalar);
  std::vector<float> x = random.vector(1024, 3.0f);
  std::fill(x.begin() + 256, x.begin() + 512, 0.0f);
  x[600] = 1e-40f;
  x[700] = 1e30f;
  for (const bool small : {true, false}) {
    std::vector<int8_t> q[2];
    std::vector<float> scales[2], offsets[2];
    std::vector<int16_t> sums[2];
    for (const int i : {0, 1}) {
      q[i].resize(1024);
      scales[i].resize(32);
      offsets[i].resize(32);
      sums[i].resize(64);
      const Leaf& own = i == 0 ? reference : leaf();
      const ActsOut out{q[i].data(), scales[i].data(), sums[i].data(), offsets[i].data()};
      (small ? own.quantize32 : own.quantize256)(x.data(), 1024, out);
    }
    EXPECT_EQ(q[0], q[1]);
    EXPECT_EQ(scales[0], scales[1]);
    EXPECT_EQ(sums[0], sums[1]);
    EXPECT_EQ(offsets[0], offsets[1]);
    for (size_t i = 0; i < 64; ++i) {
      int sum = 0;
      for (size_t j = 16 * i; j < 16 * i + 16; ++j) sum += q[1][j];
      ASSERT_EQ(sums[1][i], sum);
    }
  }
}

/// Weights and activations at the ends of their ranges must not overflow the 16-bit steps of the
/// products.
TEST_P(MatmulTest, ExtremesDoNotSaturate) {
  ThreadTeam team(1);
  const auto ops = make_cpu_ops(GetParam(), team);
  ThreadTeam alone(1);
  const auto reference = make_cpu_ops(simd::Isa::kScalar, alone);
  for (int d = 0; d < leaf().n_dots; ++d) {
    const quant::Format& format = *quant::find_format(leaf().dots[d].format);
    if (format.block_values == 1) continue;
    for (const float sign : {1.0f, -1.0f}) {
      std::vector<float> extreme(256);
      for (size_t i = 0; i < 256; ++i) extreme[i] = sign * (i % 64 == 0 ? -1.0f : 1.0f);
      std::vector<std::byte> bytes(256 / format.block_values * format.block_bytes);
      format.quantize(extreme, bytes.data());
      Table x(1, 256);
      for (int i = 0; i < 256; ++i) x.at(0, i) = 100.0f;
      Table own(1, 1);
      Table expected(1, 1);
      const Matrix w{format.type, 1, 256, bytes.data()};
      const MatmulJob own_job{own.rows(), w, nullptr};
      const MatmulJob expected_job{expected.rows(), w, nullptr};
      ops->matmul({&own_job, 1}, x.rows());
      reference->matmul({&expected_job, 1}, x.rows());
      EXPECT_NEAR(own.at(0, 0), expected.at(0, 0), 1e-2) << format.name;
    }
  }
}

TEST_P(MatmulTest, BitsDoNotDependOnColumnsRowsJobsOrThreads) {
  Random random(13);
  for (int d = 0; d < leaf().n_dots; ++d) {
    const char* name = leaf().dots[d].format;
    const int rows = 70;
    const Weights w = random_weights(random, name, rows, columns_of(*quant::find_format(name), 3));
    const int cols = static_cast<int>(w.matrix.cols);
    Table x = random.table(17, cols);
    Table expected(17, rows);
    for (int c = 0; c < 17; ++c) {  // one column and one row of weights at a time
      for (int r = 0; r < rows; ++r) {
        ThreadTeam team(1);
        const auto ops = make_cpu_ops(GetParam(), team);
        const size_t row_bytes = w.bytes.size() / rows;
        const MatmulJob job{
            expected.rows(c, 1).cols(r, 1),
            {w.matrix.type, 1, cols, w.bytes.data() + static_cast<size_t>(r) * row_bytes},
            nullptr};
        ops->matmul({&job, 1}, x.rows(c, 1));
        if (c > 2 && r > 10) break;  // the others are compared below as columns of other counts
      }
    }
    for (const int threads : {1, 2, 4}) {
      ThreadTeam team(threads);
      const auto ops = make_cpu_ops(GetParam(), team);
      Table whole(17, rows);
      const MatmulJob job{whole.rows(), w.matrix, nullptr};
      ops->matmul({&job, 1}, x.rows());
      for (int c = 0; c < 17; ++c) {
        for (int r = 0; r < (c > 2 ? 12 : rows); ++r)
          ASSERT_EQ(whole.at(c, r), expected.at(c, r)) << name;
      }
      for (int n = 1; n < 17; ++n) {
        Table part(17, rows);
        Table twice(17, rows);
        const MatmulJob jobs[] = {{part.rows(0, n), w.matrix, nullptr},
                                  {twice.rows(0, n), w.matrix, nullptr}};
        ops->matmul(jobs, x.rows(0, n));
        ASSERT_TRUE(same_bits(part, twice)) << name;
        for (int c = 0; c < n; ++c) {
          for (int r = 0; r < rows; ++r)
            ASSERT_EQ(part.at(c, r), whole.at(c, r)) << name << " of " << n;
        }
      }
    }
  }
}

TEST_P(MatmulTest, EmbedGivesTheExactRows) {
  ThreadTeam team(2);
  const auto ops = make_cpu_ops(GetParam(), team);
  Random random(14);
  for (int d = 0; d < leaf().n_dots; ++d) {
    const char* name = leaf().dots[d].format;
    const Weights w = random_weights(random, name, 9, columns_of(*quant::find_format(name), 2));
    const int32_t tokens[] = {8, 0, 3, 3};
    Table out(4, static_cast<int>(w.matrix.cols));
    ops->embed(out.rows(), w.matrix, tokens);
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < out.width(); ++j) {
        ASSERT_EQ(out.at(i, j), w.values[static_cast<size_t>(tokens[i] * w.matrix.cols + j)])
            << name;
      }
    }
  }
}

TEST(Matmul, KnowsWhatItCanMultiply) {
  EXPECT_TRUE(can_multiply(quant::find_format("Q4_K")->type));
  EXPECT_FALSE(can_multiply(quant::find_format("I32")->type));
  EXPECT_FALSE(can_multiply(quant::Type{1000}));
}

}  // namespace
}  // namespace ondol::kernels::test
