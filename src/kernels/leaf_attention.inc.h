// Thread rule: pure functions. Part of leaf.inc.h: attention over one chunk of keys and values, and
// merging chunks.
//
// Attention in parts with a running maximum: arXiv 1805.02867 (online softmax), 2205.14135
// (FlashAttention).

#include <cstdint>
#include <cstring>

#include "kernels/leaf.h"
#include "kernels/leaf_attention_tiles.inc.h"
#include "simd/vec_math.h"

namespace ondol::kernels {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();
constexpr float kLog2E = 1.44269504088896341f;
/// Pages that are worked on together: as many as the first cache holds as floats.
constexpr int kMaxGroupPages = 4;
constexpr int group_pages(int dim) { return dim <= 64 ? kMaxGroupPages : 2; }

/// 2^x for x <= 0, within about 2 units in the last place; 0 below -125.
ONDOL_VEC Wide::F32 exp2_down(Wide::F32 x) {
  const auto low = Wide::splat_f(-125.0f);
  const auto bounded = Wide::fmax(low, x);
  const auto n = Wide::round_even(bounded);
  const auto f = Wide::fsub(bounded, n);
  // The polynomial of this degree with the least relative error on [-1/2, 1/2] among those that
  // are 1 at 0: 1.1e-7.
  auto p = Wide::splat_f(0x1.5bba14p-10f);
  p = Wide::fma(p, f, Wide::splat_f(0x1.3cea88p-7f));
  p = Wide::fma(p, f, Wide::splat_f(0x1.c6b752p-5f));
  p = Wide::fma(p, f, Wide::splat_f(0x1.ebf9bcp-3f));
  p = Wide::fma(p, f, Wide::splat_f(0x1.62e42ap-1f));
  p = Wide::fma(p, f, Wide::splat_f(1.0f));
  return Wide::select(Wide::less(x, low), Wide::fzero(), Wide::times_exp2(p, n));
}
ONDOL_VEC float exp2_down(float x) {
  float lanes[kLanes];
  Wide::fstore(lanes, exp2_down(Wide::splat_f(x)));
  return lanes[0];
}

/// The scores of a chunk in place: scaled and capped, in units of ln 2, then 2^(score - largest).
/// Writes the largest and the sum.
void softmax_part(float* scores, const AttentionQuery& query, float scale_factor, float cap,
                  float* sums) {
  // Whole vectors from the chunk's first position on, so that a position's lane does not depend on
  // the query.
  const int first = query.lo / 16 * 16;
  const int end = (query.hi + 15) / 16 * 16;
  for (int i = first; i < query.lo; ++i) scores[i] = kMinusInfinity;
  for (int i = query.hi; i < end; ++i) scores[i] = kMinusInfinity;
  auto largest_lanes = Wide::splat_f(kMinusInfinity);
  if (cap == 0.0f) {
    const auto factor = Wide::splat_f(scale_factor * kLog2E);
    for (int i = first; i < end; i += kLanes) {
      const auto s = Wide::fmul(Wide::fload(scores + i), factor);
      Wide::fstore(scores + i, s);
      largest_lanes = Wide::fmax(largest_lanes, s);
    }
  } else {
    const auto factor = Wide::splat_f(scale_factor / cap);
    const auto cap2 = Wide::splat_f(cap * kLog2E);
    for (int i = first; i < end; i += kLanes) {
      const auto s = Wide::fmul(Wide::fload(scores + i), factor);
      const auto seen = Wide::less(Wide::splat_f(kMinusInfinity), s);
      const auto capped = Wide::select(seen, Wide::fmul(cap2, simd::tanh<Wide>(s)), s);
      Wide::fstore(scores + i, capped);
      largest_lanes = Wide::fmax(largest_lanes, capped);
    }
  }
  const float largest_score = Wide::reduce_max(largest_lanes);
  const auto shift = Wide::splat_f(largest_score);
  auto sum = Wide::fzero();
  for (int i = first; i < end; i += kLanes) {
    const auto p = exp2_down(Wide::fsub(Wide::fload(scores + i), shift));
    Wide::fstore(scores + i, p);
    sum = Wide::fadd(sum, p);
  }
  sums[0] = largest_score;
  sums[1] = Wide::reduce(sum);
}

/// Positions or rows [lo, hi).
struct Range {
  int lo, hi;
};
ONDOL_VEC Range within(Range a, int lo, int hi) {
  return {(a.lo > lo ? a.lo : lo) - lo, (a.hi < hi ? a.hi : hi) - lo};
}
/// What any of the queries sees.
ONDOL_VEC Range seen_by(const AttentionQuery* queries, int n) {
  Range all{kChunkTokens, 0};
  for (int j = 0; j < n; ++j) {
    if (queries[j].lo >= queries[j].hi) continue;
    all.lo = queries[j].lo < all.lo ? queries[j].lo : all.lo;
    all.hi = queries[j].hi > all.hi ? queries[j].hi : all.hi;
  }
  return all;
}

/// Starts to fetch pages while those before are worked on: the hardware does not see that pages
/// follow each other.
ONDOL_VEC void fetch_pages(const uint8_t* const* pages, int first, int end, int64_t bytes) {
  for (int page = first; page < end && page < kChunkPages; ++page) {
    if (pages[page] == nullptr) return;
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(pages[page] + i);
  }
}
ONDOL_VEC int64_t page_bytes(KvType type, int dim) {
  const int row = type == KvType::kF16 ? dim * 2 : type == KvType::kQ8_0 ? dim / 32 * 34 : dim * 4;
  return int64_t{row} * kPageTokens;
}

/// Scores of a tile's queries with n neighbouring pages.
template <KvType kType, int Q>
ONDOL_VEC void score_group(const uint8_t* const* pages, int n, const float* q, int dim,
                           float* scores) {
  constexpr int kVectors = tile_vectors(Q);
  constexpr int kPages = kVectors / kPageVectors > 1 ? kVectors / kPageVectors : 1;
  int i = 0;
  for (; i + kPages <= n; i += kPages)
    score_tile<kType, Q, kPages * kPageVectors>(pages + i, q, dim, scores + i * kPageTokens);
  for (; i < n; ++i)
    score_tile<kType, Q, kPageVectors>(pages + i, q, dim, scores + i * kPageTokens);
}

/// `pages` hold the group's keys as kType.
template <KvType kType>
void score_queries(const AttentionTask& t, int first_page, const uint8_t* const* pages, int n) {
  for (int first = 0; first < t.n_queries;) {
    const int count = tile_queries(t.n_queries - first);
    const Range seen = within(seen_by(t.queries + first, count), first_page * kPageTokens,
                              (first_page + n) * kPageTokens);
    if (seen.lo < seen.hi) {
      const int skip = seen.lo / kPageTokens;
      const int end = (seen.hi + kPageTokens - 1) / kPageTokens;
      with_count(count, [&](auto q) {
        score_group<kType, decltype(q)::value>(
            pages + skip, end - skip, t.packed + static_cast<int64_t>(first) * t.dim_k, t.dim_k,
            t.scratch + static_cast<int64_t>(first) * kChunkTokens +
                (first_page + skip) * kPageTokens);
      });
    }
    first += count;
  }
}

template <KvType kType>
void score_pages(const AttentionTask& t, int begin, int end, float* room) {
  const int step = group_pages(t.dim_k);
  const int64_t bytes = page_bytes(kType, t.dim_k);
  for (int page = begin; page < end; page += step) {
    const int n = end - page < step ? end - page : step;
    fetch_pages(t.k_pages, page + step, page + 2 * step, bytes);
    if (page + step >= end) fetch_pages(t.v_pages, begin, begin + 1, page_bytes(t.type_v, t.dim_v));
    if constexpr (kType == KvType::kF16) {
      if (t.n_queries > kTileQ) {
        const uint8_t* unpacked[kMaxGroupPages];
        for (int i = 0; i < n; ++i) {
          float* out = room + i * kPageTokens * t.dim_k;
          unpack_keys<kType>(t.k_pages[page + i], t.dim_k, out);
          unpacked[i] = reinterpret_cast<const uint8_t*>(out);
        }
        score_queries<KvType::kF32>(t, page, unpacked, n);
        continue;
      }
    }
    score_queries<kType>(t, page, t.k_pages + page, n);
  }
}

/// Some columns for a tile's queries. Where they do not all see the same rows, each goes alone: a
/// row that a query does not see must not touch its sums, not even times 0.
template <KvType kType, int Q>
void add_values(ValueRows rows, const Range (&seen)[Q], int column, int n, float* acc,
                int64_t acc_stride) {
  Range common = seen[0];
  for (int j = 1; j < Q; ++j) {
    common.lo = seen[j].lo > common.lo ? seen[j].lo : common.lo;
    common.hi = seen[j].hi < common.hi ? seen[j].hi : common.hi;
  }
  if (common.lo >= common.hi) common = {kChunkTokens, kChunkTokens};
  const auto alone = [&](int j, int lo, int hi) {
    if (lo >= hi) return;
    ValueRows own = rows;
    own.first = lo;
    own.end = hi;
    own.weights += j * kChunkTokens;
    value_columns<kType, 1>(own, column, n, acc + j * acc_stride, acc_stride);
  };
  for (int j = 0; j < Q; ++j) alone(j, seen[j].lo, seen[j].hi < common.lo ? seen[j].hi : common.lo);
  if (common.lo == kChunkTokens) return;
  rows.first = common.lo;
  rows.end = common.hi;
  value_columns<kType, Q>(rows, column, n, acc, acc_stride);
  for (int j = 0; j < Q; ++j) alone(j, common.hi, seen[j].hi);
}

/// The weights of a tile's queries times the steps of 32 columns of q8_0 values.
ONDOL_VEC void fold_steps(const uint8_t* const* pages, int n_pages, int block, const float* weights,
                          int queries, float* out) {
  for (int i = 0; i < n_pages * kPageTokens; i += kLanes) {
    const auto step =
        Wide::load_f16(pages[i / kPageTokens] + (block * kPageTokens + i % kPageTokens) * 2);
    for (int j = 0; j < queries; ++j)
      Wide::fstore(out + j * kChunkTokens + i,
                   Wide::fmul(Wide::fload(weights + j * kChunkTokens + i), step));
  }
}

/// A group of pages for all queries; rows hold the values as kType, or their codes where the pages
/// are q8_0.
template <KvType kType>
void value_queries(const AttentionTask& t, int page, int n, ValueRows rows, float* folded) {
  const int64_t size = partial_floats(t.dim_v);
  const int width = (t.dim_v + kLanes - 1) / kLanes * kLanes;
  for (int first = 0; first < t.n_queries;) {
    const int count = tile_queries(t.n_queries - first);
    const float* weights =
        t.scratch + static_cast<int64_t>(first) * kChunkTokens + page * kPageTokens;
    float* acc = t.partials + first * size;
    with_count(count, [&](auto q) {
      constexpr int kQueries = decltype(q)::value;
      Range seen[kQueries];
      bool any = false;
      for (int j = 0; j < kQueries; ++j) {
        const AttentionQuery& query = t.queries[first + j];
        seen[j] = within({query.lo, query.hi}, page * kPageTokens, (page + n) * kPageTokens);
        any = any || seen[j].lo < seen[j].hi;
      }
      if (!any) return;
      if (t.type_v != KvType::kQ8_0) {
        rows.weights = weights;
        return add_values<kType, kQueries>(rows, seen, 0, width, acc, size);
      }
      rows.weights = folded;
      for (int block = 0; block < t.dim_v / 32; ++block) {
        fold_steps(t.v_pages + page, n, block, weights, kQueries, folded);
        add_values<kType, kQueries>(rows, seen, block * 32, 32, acc, size);
      }
    });
    first += count;
  }
}

template <KvType kType>
void value_pages(const AttentionTask& t, int begin, int end, float* folded, float* room) {
  const int step = group_pages(t.dim_v);
  const int width = (t.dim_v + kLanes - 1) / kLanes * kLanes;
  const bool direct = width == t.dim_v && (t.n_queries <= kTileQ || kType == KvType::kF32);
  const int64_t codes = kType == KvType::kQ8_0 ? t.dim_v / 32 * 2 * kPageTokens : 0;
  const uint8_t* pages[kMaxGroupPages];
  for (int page = begin; page < end; page += step) {
    const int n = end - page < step ? end - page : step;
    fetch_pages(t.v_pages, page + step, page + 2 * step, page_bytes(kType, t.dim_v));
    for (int i = 0; i < n; ++i) pages[i] = t.v_pages[page + i] + codes;
    if (direct) {
      value_queries<kType>(t, page, n,
                           {pages, 0, 0, int64_t{t.dim_v} * value_bytes(kType), nullptr}, folded);
      continue;
    }
    for (int i = 0; i < n; ++i) {
      float* out = room + i * kPageTokens * width;
      unpack_values<kType>(pages[i], kPageTokens, t.dim_v, width, out);
      pages[i] = reinterpret_cast<const uint8_t*>(out);
    }
    value_queries<KvType::kF32>(t, page, n, {pages, 0, 0, int64_t{width} * 4, nullptr}, folded);
  }
}

void attend(const AttentionTask& t) {
  const int64_t size = partial_floats(t.dim_v);
  std::memset(t.partials, 0, static_cast<size_t>(t.n_queries * size) * sizeof(float));
  const Range all = seen_by(t.queries, t.n_queries);
  if (all.lo >= all.hi) return;
  const int begin = all.lo / kPageTokens;
  const int end = (all.hi + kPageTokens - 1) / kPageTokens;
  float* folded = t.scratch + static_cast<int64_t>(t.n_queries) * kChunkTokens;
  float* room = folded + 16 * kChunkTokens;
  if (t.type_k == KvType::kF16) score_pages<KvType::kF16>(t, begin, end, room);
  if (t.type_k == KvType::kQ8_0) score_pages<KvType::kQ8_0>(t, begin, end, room);
  if (t.type_k == KvType::kF32) score_pages<KvType::kF32>(t, begin, end, room);
  const float* factors = t.packed + static_cast<int64_t>(t.n_queries) * t.dim_k;
  for (int j = 0; j < t.n_queries; ++j) {
    if (t.queries[j].lo < t.queries[j].hi)
      softmax_part(t.scratch + static_cast<int64_t>(j) * kChunkTokens, t.queries[j],
                   t.scale * factors[j], t.softcap, t.partials + j * size + partial_sums(t.dim_v));
  }
  if (t.type_v == KvType::kF16) value_pages<KvType::kF16>(t, begin, end, folded, room);
  if (t.type_v == KvType::kQ8_0) value_pages<KvType::kQ8_0>(t, begin, end, folded, room);
  if (t.type_v == KvType::kF32) value_pages<KvType::kF32>(t, begin, end, folded, room);
}

void merge(float* into, const float* part, int dim_v) {
  float* sums = into + partial_sums(dim_v);
  const float* more = part + partial_sums(dim_v);
  if (more[1] == 0.0f) return;
  if (sums[1] == 0.0f) {
    std::memcpy(into, part, static_cast<size_t>(partial_floats(dim_v)) * sizeof(float));
    return;
  }
  const float largest_score = more[0] > sums[0] ? more[0] : sums[0];
  const float a = exp2_down(sums[0] - largest_score);
  const float b = exp2_down(more[0] - largest_score);
  sums[0] = largest_score;
  sums[1] = sums[1] * a + more[1] * b;
  for (int i = 0; i < dim_v; i += kLanes) {
    const auto added = Wide::fmul(Wide::fload(part + i), Wide::splat_f(b));
    Wide::fstore(into + i, Wide::fma(Wide::fload(into + i), Wide::splat_f(a), added));
  }
}

void finish(float* out, const float* partial, int dim_v, const float* sink) {
  const float* sums = partial + partial_sums(dim_v);
  float sum = sums[1];
  float factor = 1.0f;
  if (sink != nullptr) {
    const float score = *sink * kLog2E;
    const float largest_score = score > sums[0] ? score : sums[0];
    factor = exp2_down(sums[0] - largest_score);
    sum = sum * factor + exp2_down(score - largest_score);
  }
  const auto f = Wide::splat_f(factor / sum);
  int i = 0;
  for (; i + kLanes <= dim_v; i += kLanes)
    Wide::fstore(out + i, Wide::fmul(Wide::fload(partial + i), f));
  if (i < dim_v) Wide::fstore_n(out + i, Wide::fmul(Wide::fload(partial + i), f), dim_v - i);
}

}  // namespace
}  // namespace ondol::kernels
