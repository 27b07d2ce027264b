// The matrix products of every format and instruction set: against double, and bit for bit against
// themselves whatever comes beside a row.
#include <algorithm>
#include <bit>

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

/// A row quantised by a leaf, as a tile of one.
struct Quantised {
  std::vector<int8_t> q;
  std::vector<float> scales;
  std::vector<int32_t> extra;  ///< blocks of 32
  std::vector<int16_t> sums;   ///< blocks of 256
};

Quantised quantised(const Leaf& leaf, quant::ActKind kind, int lift, const float* x, int n) {
  Quantised out;
  if (kind == quant::ActKind::kBlocks32) {
    std::vector<Acts32<1>> blocks(static_cast<size_t>(n) / 32);
    Acts32<1>& first = blocks[0];
    leaf.quantize32(x, n, {first.q[0], first.scale, first.extra, sizeof first, lift});
    for (const auto& b : blocks) {
      out.q.insert(out.q.end(), b.q[0], b.q[0] + 32);
      out.scales.push_back(b.scale[0]);
      out.extra.push_back(b.extra[0]);
    }
    return out;
  }
  std::vector<Acts256<1>> blocks(static_cast<size_t>(n) / 256);
  Acts256<1>& first = blocks[0];
  leaf.quantize256(x, n, {first.q[0], first.scale, first.sums[0], sizeof first, 0});
  for (const auto& b : blocks) {
    out.q.insert(out.q.end(), b.q[0], b.q[0] + 256);
    out.scales.push_back(b.scale[0]);
    out.sums.insert(out.sums.end(), b.sums[0], b.sums[0] + 16);
  }
  return out;
}

/// What the kernels see of an input row, from the reference's quantisation.
std::vector<float> seen(quant::ActKind kind, const float* x, int n) {
  if (kind == quant::ActKind::kFloat) return {x, x + n};
  const auto size = static_cast<size_t>(n);
  const size_t group = kind == quant::ActKind::kBlocks32 ? 32 : 256;
  const Quantised in = quantised(*find_leaf(simd::Isa::kScalar), kind, 1, x, n);
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i) values[i] = in.scales[i / group] * in.q[i];
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
  std::vector<float> x = random.vector(1024, 3.0f);
  std::fill(x.begin() + 256, x.begin() + 512, 0.0f);
  x[600] = 1e-40f;
  x[700] = 1e30f;
  for (const int lift : {0, 8, 128}) {
    const auto kind = quant::ActKind::kBlocks32;
    const Quantised expected =
        quantised(*find_leaf(simd::Isa::kScalar), kind, lift, x.data(), 1024);
    const Quantised own = quantised(leaf(), kind, lift, x.data(), 1024);
    EXPECT_EQ(own.q, expected.q);
    EXPECT_EQ(own.scales, expected.scales);
    EXPECT_EQ(own.extra, expected.extra);
    for (size_t i = 0; i < 32; ++i) {
      int sum = 0;
      for (size_t j = 32 * i; j < 32 * i + 32; ++j) sum += own.q[j];
      const float offset = own.scales[i] * static_cast<float>(sum);
      ASSERT_EQ(own.extra[i], lift != 0 ? -lift * sum : std::bit_cast<int32_t>(offset));
    }
  }
  const auto kind = quant::ActKind::kBlocks256;
  const Quantised expected = quantised(*find_leaf(simd::Isa::kScalar), kind, 0, x.data(), 1024);
  const Quantised own = quantised(leaf(), kind, 0, x.data(), 1024);
  EXPECT_EQ(own.q, expected.q);
  EXPECT_EQ(own.scales, expected.scales);
  EXPECT_EQ(own.sums, expected.sums);
  for (size_t i = 0; i < 64; ++i) {
    int sum = 0;
    for (size_t j = 16 * i; j < 16 * i + 16; ++j) sum += own.q[j];
    ASSERT_EQ(own.sums[i], sum);
  }
}

/// Lanes are rows and block sums are whole numbers, so all instruction sets do the same arithmetic.
TEST_P(MatmulTest, BitsAreTheReferences) {
  ThreadTeam team(1);
  const auto ops = make_cpu_ops(GetParam(), team);
  ThreadTeam alone(1);
  const auto reference = make_cpu_ops(simd::Isa::kScalar, alone);
  Random random(15);
  for (int d = 0; d < leaf().n_dots; ++d) {
    const char* name = leaf().dots[d].format;
    for (const int rows : {1, 15, 16, 37}) {
      const Weights w =
          random_weights(random, name, rows, columns_of(*quant::find_format(name), 3));
      for (const int columns : {1, 3, 8, 13}) {
        Table x = random.table(columns, static_cast<int>(w.matrix.cols), 3.0f);
        Table own(columns, rows);
        Table expected(columns, rows);
        const MatmulJob own_job{own.rows(), w.matrix, nullptr};
        const MatmulJob expected_job{expected.rows(), w.matrix, nullptr};
        ops->matmul({&own_job, 1}, x.rows());
        reference->matmul({&expected_job, 1}, x.rows());
        ASSERT_TRUE(same_bits(own, expected)) << name << " " << rows << " x " << columns;
      }
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

TEST_P(MatmulTest, PackedWeightsGiveTheSameBits) {
  Random random(15);
  ThreadTeam team(2);
  for (int d = 0; d < leaf().n_dots; ++d) {
    const char* name = leaf().dots[d].format;
    const quant::Format& format = *quant::find_format(name);
    for (const int rows : {leaf().rows - 1, 3 * leaf().rows, 70}) {
      const Weights w = random_weights(random, name, rows, columns_of(format, 3));
      const size_t row_bytes = w.bytes.size() / static_cast<size_t>(rows);
      const auto plain = make_cpu_ops(GetParam(), team);
      const auto packing = make_cpu_ops(GetParam(), team);
      size_t told = 0;
      packing->pack_weights(1 << 20, [&](std::span<const std::byte> bytes) {
        EXPECT_EQ(bytes.data(), w.matrix.data + told) << name;
        told += bytes.size();
      });
      for (int use = 0; use < 70; ++use) {
        const int n = use % 3 == 0 ? 1 : use % 3 * 11;
        Table x = random.table(n, static_cast<int>(w.matrix.cols));
        Table expected(n, rows);
        Table found(n, rows);
        const MatmulJob plain_job{expected.rows(), w.matrix, nullptr};
        const MatmulJob packed_job{found.rows(), w.matrix, nullptr};
        plain->matmul({&plain_job, 1}, x.rows());
        packing->matmul({&packed_job, 1}, x.rows());
        ASSERT_TRUE(same_bits(found, expected)) << name << " " << rows << " rows, use " << use;
        if (use == 0) {
          EXPECT_EQ(told, 0u) << "the first answer waits for nothing";
        }
      }
      // Whole panels, each once.
      const bool packs = row_bytes % leaf().dots[d].block_bytes == 0;
      const int whole = packs ? rows / leaf().rows * leaf().rows : 0;
      EXPECT_EQ(told, static_cast<size_t>(whole) * row_bytes) << name;
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
