// Attention over pages of every instruction set: against double, and bit for bit against itself
// whatever the batch, the cut of the prompt, the page table and the threads.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/testing.h"
#include "quant/half.h"

namespace ondol::kernels::test {
namespace {

class AttentionTest : public EachIsa {};
INSTANTIATE_TEST_SUITE_P(Isa, AttentionTest, testing::ValuesIn(all_isas()), isa_test_name);

struct Shape {
  int n_head = 4;
  int n_head_kv = 2;
  int dim_k = 32;
  int dim_v = 32;
  KvType type_k = KvType::kF16;
  KvType type_v = KvType::kF16;
};

/// Pages of several sequences in an order of their own, full of NaN where nothing was written.
class Cache {
 public:
  Cache(const Shape& shape, const std::vector<int>& lengths, uint32_t seed) : shape_(shape) {
    layer_.n_head_kv = shape.n_head_kv;
    layer_.head_dim_k = shape.dim_k;
    layer_.head_dim_v = shape.dim_v;
    layer_.k_offset = 64;
    const auto slots = static_cast<size_t>(shape.n_head_kv * kPageTokens);
    layer_.v_offset = layer_.k_offset + slots * kv_row_bytes(shape.type_k, shape.dim_k);
    group_.page_bytes = layer_.v_offset + slots * kv_row_bytes(shape.type_v, shape.dim_v) + 32;
    size_t pages = 0;
    for (const int n : lengths) pages += static_cast<size_t>((n + kPageTokens - 1) / kPageTokens);
    memory_.assign(group_.page_bytes * pages, std::byte{0xff});
    group_.base = memory_.data();
    std::vector<uint32_t> ids(pages);
    std::iota(ids.begin(), ids.end(), 0u);
    std::shuffle(ids.begin(), ids.end(), std::mt19937(seed));
    size_t next = 0;
    tables_.resize(lengths.size());
    for (size_t s = 0; s < lengths.size(); ++s) {
      for (int p = 0; p < lengths[s]; p += kPageTokens) tables_[s].push_back(ids[next++]);
    }
    for (const auto& table : tables_)
      groups_of_.emplace_back(std::vector<std::span<const uint32_t>>{table});
  }
  KvSequence sequence(size_t s, int first_row, int n_rows, int first_pos) const {
    return {first_row, n_rows, first_pos, groups_of_[s]};
  }
  KvView view(std::span<const KvSequence> sequences) const {
    return {shape_.type_k, shape_.type_v, {&group_, 1}, {&layer_, 1}, sequences};
  }
  void forget_pages(size_t s, int before_pos) {
    for (int p = 0; (p + 1) * kPageTokens <= before_pos; ++p)
      tables_[s][static_cast<size_t>(p)] = kNoPage;
  }
  /// Value i of a stored key (or value).
  double stored(bool key, size_t s, int pos, int head, int i) const {
    const KvType type = key ? shape_.type_k : shape_.type_v;
    const int dim = key ? shape_.dim_k : shape_.dim_v;
    const uint32_t page = tables_[s][static_cast<size_t>(pos / kPageTokens)];
    const std::byte* rows = group_.base + page * group_.page_bytes +
                            (key ? layer_.k_offset : layer_.v_offset) +
                            static_cast<size_t>(head * kPageTokens) * kv_row_bytes(type, dim);
    const auto* raw = reinterpret_cast<const uint8_t*>(rows);
    const int slot = pos % kPageTokens;
    if (type == KvType::kQ8_0) {
      const uint8_t* block = raw + (key ? i / 32 * 34 * kPageTokens : i / 32 * 2 * kPageTokens);
      const int code = key ? 32 + i % 32 / 4 * 64 + 4 * slot + i % 4 : 0;
      const uint8_t* value_codes = raw + dim / 32 * 2 * kPageTokens;
      return quant::load_f16(block + 2 * slot) *
             static_cast<int8_t>(key ? block[code] : value_codes[slot * dim + i]);
    }
    const int index = key ? i * kPageTokens + slot : slot * dim + i;
    if (type == KvType::kF16) return quant::load_f16(raw + 2 * index);
    float value = 0;
    std::memcpy(&value, raw + 4 * index, 4);
    return value;
  }

 private:
  Shape shape_;
  KvLayer layer_;
  KvGroup group_;
  std::vector<std::byte> memory_;
  std::vector<std::vector<uint32_t>> tables_;
  std::vector<std::vector<std::span<const uint32_t>>> groups_of_;
};

/// One sequence's queries, keys and values.
struct Stream {
  Table q, k, v;
  Stream(Random& random, const Shape& s, int n)
      : q(random.table(n, s.n_head * s.dim_k)),
        k(random.table(n, s.n_head_kv * s.dim_k)),
        v(random.table(n, s.n_head_kv * s.dim_v)) {}
};

std::vector<double> expected_row(const Cache& cache, const Shape& s, const AttentionParams& p,
                                 Stream& stream, size_t index, int pos) {
  std::vector<double> out(static_cast<size_t>(s.n_head * s.dim_v), 0.0);
  for (int h = 0; h < s.n_head; ++h) {
    const int kv_head = h * s.n_head_kv / s.n_head;
    const int lo = p.window > 0 ? std::max(0, pos + 1 - p.window) : 0;
    std::vector<double> scores;
    for (int t = lo; t <= pos; ++t) {
      double score = 0;
      for (int i = 0; i < s.dim_k; ++i) {
        score += stream.q.at(pos, h * s.dim_k + i) * cache.stored(true, index, t, kv_head, i);
      }
      score *= p.scale;
      scores.push_back(p.softcap != 0 ? p.softcap * std::tanh(score / p.softcap) : score);
    }
    double top = *std::max_element(scores.begin(), scores.end());
    if (p.sinks != nullptr) top = std::max(top, double{p.sinks[h]});
    double sum = p.sinks != nullptr ? std::exp(p.sinks[h] - top) : 0.0;
    for (double& x : scores) sum += x = std::exp(x - top);
    for (int t = lo; t <= pos; ++t) {
      for (int i = 0; i < s.dim_v; ++i) {
        out[static_cast<size_t>(h * s.dim_v + i)] +=
            scores[static_cast<size_t>(t - lo)] / sum * cache.stored(false, index, t, kv_head, i);
      }
    }
  }
  return out;
}

void run(Ops& ops, Cache& cache, size_t index, Stream& stream, Table& out, int first, int n,
         const AttentionParams& params) {
  const KvSequence sequence = cache.sequence(index, 0, n, first);
  const KvView view = cache.view({&sequence, 1});
  ops.kv_write(view, 0, stream.k.rows(first, n), stream.v.rows(first, n));
  ops.attention(out.rows(first, n), stream.q.rows(first, n), view, 0, params);
}

void check_against_double(simd::Isa isa, const Shape& shape, AttentionParams params, int length) {
  ThreadTeam team(2);
  const auto ops = make_cpu_ops(isa, team);
  Random random(21);
  params.n_head = shape.n_head;
  params.scale = 1.0f / std::sqrt(static_cast<float>(shape.dim_k));
  Stream stream(random, shape, length);
  Cache cache(shape, {length}, 1);
  Table out(length, shape.n_head * shape.dim_v);
  run(*ops, cache, 0, stream, out, 0, length, params);
  // With q8_0 keys the query is rounded to 16 bits.
  const double tolerance = shape.type_k == KvType::kQ8_0 ? 1e-4 : 1e-5;
  for (int pos = 0; pos < length; pos += 1 + pos / 16) {
    const auto expected = expected_row(cache, shape, params, stream, 0, pos);
    for (int i = 0; i < out.width(); ++i) {
      ASSERT_NEAR(out.at(pos, i), expected[static_cast<size_t>(i)], tolerance)
          << "position " << pos << " dims " << shape.dim_k << " " << shape.dim_v;
    }
  }
}

TEST_P(AttentionTest, ShapesAndTypesAgainstDouble) {
  for (const KvType type : {KvType::kF16, KvType::kQ8_0, KvType::kF32}) {
    for (const int dim : {32, 64, 96, 128, 256}) {
      check_against_double(GetParam(), {4, 2, dim, dim, type, type}, {}, 41);
    }
    check_against_double(GetParam(), {9, 3, 64, 64, type, type}, {}, 530);
    check_against_double(GetParam(), {8, 1, 96, 64, type, type}, {}, 50);
  }
  check_against_double(GetParam(), {40, 1, 32, 32, KvType::kF16, KvType::kF16}, {}, 20);
  check_against_double(GetParam(), {3, 3, 20, 12, KvType::kF16, KvType::kF32}, {}, 35);
  check_against_double(GetParam(), {2, 1, 32, 32, KvType::kQ8_0, KvType::kF16}, {}, 35);
  for (const int dim : {8, 40, 80}) {  // less than, and not a multiple of, a tile of vectors
    check_against_double(GetParam(), {6, 2, dim, dim, KvType::kF16, KvType::kF16}, {}, 40);
    check_against_double(GetParam(), {5, 5, dim, dim, KvType::kF32, KvType::kF32}, {}, 17);
  }
}

TEST_P(AttentionTest, SoftcapWindowAndSinksAgainstDouble) {
  const float sinks[] = {1.0f, -2.0f, 5.0f, 0.0f};
  AttentionParams params;
  params.softcap = 2.0f;
  check_against_double(GetParam(), {}, params, 300);
  params.window = 20;
  check_against_double(GetParam(), {}, params, 300);
  params.sinks = sinks;
  check_against_double(GetParam(), {}, params, 300);
  params.softcap = 0.0f;
  params.window = 256;
  check_against_double(GetParam(), {}, params, 560);
  params.window = 1;
  check_against_double(GetParam(), {}, params, 30);
}

void copy_rows(Rows from, Rows to) {
  for (int i = 0; i < from.n; ++i) std::copy_n(from.row(i), from.width, to.row(i));
}

struct Variant {
  Shape shape;
  int window;
};

TEST_P(AttentionTest, BitsDoNotDependOnCutsBatchPagesOrThreads) {
  const Variant variants[] = {{{4, 2, 64, 64, KvType::kF16, KvType::kF16}, 0},
                              {{9, 3, 32, 32, KvType::kQ8_0, KvType::kQ8_0}, 0},
                              {{4, 1, 32, 96, KvType::kF32, KvType::kF16}, 70}};
  for (const Variant& variant : variants) {
    const Shape& shape = variant.shape;
    Random random(22);
    const int length = 620;
    AttentionParams params;
    params.n_head = shape.n_head;
    params.scale = 0.3f;
    params.window = variant.window;
    Stream stream(random, shape, length);
    Stream other(random, shape, length);
    Table expected(length, shape.n_head * shape.dim_v);
    {
      ThreadTeam team(1);
      Cache cache(shape, {length}, 1);
      run(*make_cpu_ops(GetParam(), team), cache, 0, stream, expected, 0, length, params);
    }
    for (const int threads : {1, 2, 5}) {
      ThreadTeam team(threads);
      const auto ops = make_cpu_ops(GetParam(), team);
      Cache cache(shape, {length, length}, static_cast<uint32_t>(threads));
      Table out(length, expected.width());
      int done = 0;
      while (done < length) {  // random pieces, together with a piece of another sequence
        const int n = std::min(length - done, random.below(3) == 0 ? 1 + random.below(90) : 1);
        Stream batch(random, shape, 2 * n);
        const auto copy = [&](Table& into, int row, Table& from) {
          for (int i = 0; i < n; ++i)
            std::copy_n(from.rows().row(done + i), from.width(), into.rows().row(row + i));
        };
        for (const auto& [row, source] : {std::pair(0, &other), std::pair(n, &stream)}) {
          copy(batch.q, row, source->q);
          copy(batch.k, row, source->k);
          copy(batch.v, row, source->v);
        }
        if (variant.window > 0) cache.forget_pages(1, done + 1 - variant.window);
        const KvSequence sequences[] = {cache.sequence(0, 0, n, done),
                                        cache.sequence(1, n, n, done)};
        const KvView view = cache.view(sequences);
        Table both(2 * n, expected.width());
        ops->kv_write(view, 0, batch.k.rows(), batch.v.rows());
        ops->attention(both.rows(), batch.q.rows(), view, 0, params);
        copy_rows(both.rows(n, n), out.rows(done, n));
        done += n;
      }
      ASSERT_TRUE(same_bits(out, expected)) << threads << " threads";
    }
  }
}

TEST_P(AttentionTest, NothingBeforeTheWindowIsRead) {
  ThreadTeam team(1);
  const auto ops = make_cpu_ops(GetParam(), team);
  const Shape shape;
  Random random(23);
  Stream stream(random, shape, 300);
  AttentionParams params;
  params.n_head = shape.n_head;
  params.window = 33;
  Cache cache(shape, {300}, 3);
  Table expected(300, shape.n_head * shape.dim_v);
  run(*ops, cache, 0, stream, expected, 0, 299, params);
  cache.forget_pages(0, 299 - 32);
  run(*ops, cache, 0, stream, expected, 299, 1, params);
  for (int i = 0; i < expected.width(); ++i) EXPECT_TRUE(std::isfinite(expected.at(299, i)));
}

TEST_P(AttentionTest, AnEmptyBatchIsNoWork) {
  ThreadTeam team(2);
  const auto ops = make_cpu_ops(GetParam(), team);
  const Shape shape;
  Cache cache(shape, {16}, 1);
  AttentionParams params;
  params.n_head = shape.n_head;
  const KvView view = cache.view({});
  ops->kv_write(view, 0, {}, {});
  ops->attention({}, {nullptr, 0, shape.n_head * shape.dim_k, 0}, view, 0, params);
}

}  // namespace
}  // namespace ondol::kernels::test
