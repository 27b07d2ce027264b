// Thread rule: pure functions. Part of leaf.inc.h: storing keys and values, and attention over one
// chunk of them.
//
// Attention in parts with a running maximum: arXiv 1805.02867 (online softmax), 2205.14135
// (FlashAttention).

#include <cstdint>
#include <cstring>

#include "kernels/leaf.h"
#include "simd/vec_math.h"

namespace ondol::kernels {
namespace {

using simd::Vec;

constexpr float kMinusInfinity = -__builtin_inff();

void store_f16_row(uint8_t* out, const float* x, int n) {
  int i = 0;
  for (; i + 8 <= n; i += 8) Vec::store_f16(out + 2 * i, Vec::fload(x + i));
  if (i < n) {
    uint8_t last[16];
    Vec::store_f16(last, Vec::fload_n(x + i, n - i));
    std::memcpy(out + 2 * i, last, static_cast<size_t>(n - i) * 2);
  }
}

/// Blocks of a float16 step and 32 int8, each from its own 32 values alone.
void store_q8_row(uint8_t* out, const float* x, int n) {
  for (int i = 0; i < n; i += 32, out += 34) {
    auto m = Vec::fzero();
    for (int j = 0; j < 32; j += 8) m = Vec::fmax(m, Vec::fabs(Vec::fload(x + i + j)));
    const float largest_value = Vec::reduce_max(m);
    const bool zero = largest_value < 1e-36f;
    uint8_t step[16];
    Vec::store_f16(step, Vec::splat_f(zero ? 0.0f : largest_value / 127.0f));
    std::memcpy(out, step, 2);
    const auto f = Vec::splat_f(zero ? 0.0f : 127.0f / largest_value);
    Vec::store(
        out + 2,
        Vec::quantized(Vec::fmul(Vec::fload(x + i), f), Vec::fmul(Vec::fload(x + i + 8), f),
                       Vec::fmul(Vec::fload(x + i + 16), f), Vec::fmul(Vec::fload(x + i + 24), f)));
  }
}

void store_kv(KvType type, uint8_t* out, const float* x, int n) {
  switch (type) {
    case KvType::kF16:
      return store_f16_row(out, x, n);
    case KvType::kQ8_0:
      return store_q8_row(out, x, n);
    case KvType::kF32:
      std::memcpy(out, x, static_cast<size_t>(n) * 4);
      return;
  }
}

ONDOL_VEC int row_bytes(KvType type, int dim) {
  return type == KvType::kF16 ? dim * 2 : type == KvType::kQ8_0 ? dim / 32 * 34 : dim * 4;
}

/// One stored row as floats; the last vector is filled up with zeros.
template <KvType kType>
ONDOL_VEC void unpack_row(const uint8_t* row, int dim, float* out) {
  if constexpr (kType == KvType::kQ8_0) {
    for (int i = 0; i < dim; i += 32, row += 34) {
      const auto step = Vec::splat_f(Vec::f16(row));
#pragma GCC unroll 4
      for (int j = 0; j < 32; j += 8)
        Vec::fstore(out + i + j, Vec::fmul(Vec::load_i8(row + 2 + j), step));
    }
  } else {
    constexpr int kBytes = kType == KvType::kF16 ? 2 : 4;
    const auto load = [](const uint8_t* p) {
      if constexpr (kType == KvType::kF16) return Vec::load_f16(p);
      return Vec::load_f32(p);
    };
    int i = 0;
    for (; i + 8 <= dim; i += 8) Vec::fstore(out + i, load(row + i * kBytes));
    if (i < dim) {
      uint8_t last[32] = {};
      std::memcpy(last, row + i * kBytes, static_cast<size_t>((dim - i) * kBytes));
      Vec::fstore(out + i, load(last));
    }
  }
}

template <KvType kType>
void unpack_rows(const uint8_t* page, int first, int end, int dim, float* out) {
  const int width = (dim + 7) / 8 * 8;
  for (int slot = first; slot < end; ++slot) {
    unpack_row<kType>(page + slot * row_bytes(kType, dim), dim, out + slot * width);
  }
}

/// Starts to fetch a page while the one before is worked on: the hardware does not see that pages
/// follow each other.
ONDOL_VEC void fetch_page(KvType type, const uint8_t* page, int dim) {
  const int bytes = kPageTokens * row_bytes(type, dim);
  for (int i = 0; i < bytes; i += 64) __builtin_prefetch(page + i);
}

/// Slots [first, end) of a page as floats, padded with zeros to whole vectors.
ONDOL_VEC void unpack_page(KvType type, const uint8_t* page, int first, int end, int dim,
                           float* out) {
  switch (type) {
    case KvType::kF16:
      return unpack_rows<KvType::kF16>(page, first, end, dim, out);
    case KvType::kQ8_0:
      return unpack_rows<KvType::kQ8_0>(page, first, end, dim, out);
    case KvType::kF32:
      return unpack_rows<KvType::kF32>(page, first, end, dim, out);
  }
}

/// Scores of one query with eight keys of `width` floats.
ONDOL_VEC Vec::F32 scores8(const float* q, const float* keys, int dim, int width) {
  Vec::F32 sums[8];
  for (int j = 0; j < 8; ++j) sums[j] = Vec::fzero();
  int i = 0;
  for (; i + 8 <= dim; i += 8) {
    const auto x = Vec::fload(q + i);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) sums[j] = Vec::fma(x, Vec::fload(keys + j * width + i), sums[j]);
  }
  if (i < dim) {
    const auto x = Vec::fload_n(q + i, dim - i);
    for (int j = 0; j < 8; ++j) sums[j] = Vec::fma(x, Vec::fload(keys + j * width + i), sums[j]);
  }
  return Vec::reduce8(sums);
}

/// acc[i ...] += sum over the slots [first, end) of weights[slot] * values[slot], kLanes vectors at
/// a time.
template <int kLanes>
ONDOL_VEC void add_values(float* acc, const float* weights, const float* values, int first, int end,
                          int width) {
  Vec::F32 sums[kLanes];
  for (int j = 0; j < kLanes; ++j) sums[j] = Vec::fload(acc + 8 * j);
  for (int slot = first; slot < end; ++slot) {
    const auto w = Vec::splat_f(weights[slot]);
#pragma GCC unroll 8
    for (int j = 0; j < kLanes; ++j)
      sums[j] = Vec::fma(w, Vec::fload(values + slot * width + 8 * j), sums[j]);
  }
  for (int j = 0; j < kLanes; ++j) Vec::fstore(acc + 8 * j, sums[j]);
}

struct Slots {
  int first, end;
};
/// The part of [lo, hi) that lies in a page, as slots of the page; empty: first >= end.
ONDOL_VEC Slots slots_of(int lo, int hi, int page) {
  const int start = page * kPageTokens;
  const int first = lo - start;
  const int end = hi - start;
  return {first < 0 ? 0 : first, end > kPageTokens ? kPageTokens : end};
}

/// The scores of a chunk in place: capped, then exp(score - largest). Writes largest and sum to the
/// partial result.
void softmax_part(float* scores, const AttentionQuery& query, float scale_factor, float cap,
                  float* partial) {
  // Whole groups of eight from the first position on, so that a position's lane does not depend on
  // the query.
  const int first = query.lo / 8 * 8;
  const int end = (query.hi + 7) / 8 * 8;
  const auto factor = Vec::splat_f(scale_factor);
  const auto c = Vec::splat_f(cap);
  for (int i = first; i < query.lo; ++i) scores[i] = kMinusInfinity;
  for (int i = query.hi; i < end; ++i) scores[i] = kMinusInfinity;
  auto largest_lanes = Vec::splat_f(kMinusInfinity);
  for (int i = first; i < end; i += 8) {
    auto s = Vec::fmul(Vec::fload(scores + i), factor);
    if (cap != 0.0f) {
      const auto capped = Vec::fmul(c, simd::tanh<Vec>(Vec::fdiv(s, c)));
      s = Vec::select(Vec::less(Vec::splat_f(kMinusInfinity), s), capped, s);
    }
    Vec::fstore(scores + i, s);
    largest_lanes = Vec::fmax(largest_lanes, s);
  }
  const float largest_score = Vec::reduce_max(largest_lanes);
  auto sum = Vec::fzero();
  for (int i = first; i < end; i += 8) {
    const auto p = simd::exp<Vec>(Vec::fsub(Vec::fload(scores + i), Vec::splat_f(largest_score)));
    Vec::fstore(scores + i, p);
    sum = Vec::fadd(sum, p);
  }
  partial[0] = largest_score;
  partial[1] = Vec::reduce(sum);
}

ONDOL_VEC void score_page(const AttentionTask& t, int page, Slots all, float* keys) {
  const int width = (t.dim_k + 7) / 8 * 8;
  if (page + 1 < kChunkPages && t.k_pages[page + 1] != nullptr)
    fetch_page(t.type_k, t.k_pages[page + 1], t.dim_k);
  unpack_page(t.type_k, t.k_pages[page], all.first, all.end, t.dim_k, keys);
  for (int n = 0; n < t.n_queries; ++n) {
    const Slots slots = slots_of(t.queries[n].lo, t.queries[n].hi, page);
    float* scores = t.scratch + n * kChunkTokens + page * kPageTokens;
    for (int slot = slots.first / 8 * 8; slot < slots.end; slot += 8) {
      Vec::fstore(scores + slot, scores8(t.queries[n].q, keys + slot * width, t.dim_k, width));
    }
  }
}

ONDOL_VEC void value_page(const AttentionTask& t, int page, Slots all, float* values) {
  const int width = (t.dim_v + 7) / 8 * 8;
  if (page + 1 < kChunkPages && t.v_pages[page + 1] != nullptr)
    fetch_page(t.type_v, t.v_pages[page + 1], t.dim_v);
  unpack_page(t.type_v, t.v_pages[page], all.first, all.end, t.dim_v, values);
  for (int n = 0; n < t.n_queries; ++n) {
    const Slots slots = slots_of(t.queries[n].lo, t.queries[n].hi, page);
    const float* weights = t.scratch + n * kChunkTokens + page * kPageTokens;
    float* acc = t.partials + n * partial_floats(t.dim_v) + 2;
    int i = 0;
    for (; i + 64 <= t.dim_v; i += 64)
      add_values<8>(acc + i, weights, values + i, slots.first, slots.end, width);
    for (; i + 8 <= t.dim_v; i += 8)
      add_values<1>(acc + i, weights, values + i, slots.first, slots.end, width);
    for (; i < t.dim_v; ++i) {
      for (int slot = slots.first; slot < slots.end; ++slot)
        acc[i] += weights[slot] * values[slot * width + i];
    }
  }
}

void attend(const AttentionTask& t) {
  int lo = kChunkTokens;
  int hi = 0;
  for (int n = 0; n < t.n_queries; ++n) {
    if (t.queries[n].lo >= t.queries[n].hi) continue;
    lo = t.queries[n].lo < lo ? t.queries[n].lo : lo;
    hi = t.queries[n].hi > hi ? t.queries[n].hi : hi;
  }
  for (int64_t i = 0; i < t.n_queries * partial_floats(t.dim_v); ++i) t.partials[i] = 0.0f;
  float* rows = t.scratch + t.n_queries * kChunkTokens;
  for (int page = lo / kPageTokens; page * kPageTokens < hi; ++page)
    score_page(t, page, slots_of(lo, hi, page), rows);
  for (int n = 0; n < t.n_queries; ++n) {
    if (t.queries[n].lo >= t.queries[n].hi) continue;
    softmax_part(t.scratch + n * kChunkTokens, t.queries[n], t.scale, t.softcap,
                 t.partials + n * partial_floats(t.dim_v));
  }
  for (int page = lo / kPageTokens; page * kPageTokens < hi; ++page)
    value_page(t, page, slots_of(lo, hi, page), rows);
}

ONDOL_VEC float exp1(float x) {
  float lanes_out[8];
  Vec::fstore(lanes_out, simd::exp<Vec>(Vec::splat_f(x)));
  return lanes_out[0];
}

void merge(float* into, const float* part, int dim_v) {
  if (part[1] == 0.0f) return;
  if (into[1] == 0.0f) {
    std::memcpy(into, part, static_cast<size_t>(partial_floats(dim_v)) * sizeof(float));
    return;
  }
  const float largest_score = part[0] > into[0] ? part[0] : into[0];
  const float a = exp1(into[0] - largest_score);
  const float b = exp1(part[0] - largest_score);
  into[0] = largest_score;
  into[1] = into[1] * a + part[1] * b;
  for (int i = 2; i < dim_v + 2; ++i) into[i] = into[i] * a + part[i] * b;
}

void finish(float* out, const float* partial, int dim_v, const float* sink) {
  float sum = partial[1];
  float factor = 1.0f;
  if (sink != nullptr) {
    const float largest_score = *sink > partial[0] ? *sink : partial[0];
    factor = exp1(partial[0] - largest_score);
    sum = sum * factor + exp1(*sink - largest_score);
  }
  factor /= sum;
  for (int i = 0; i < dim_v; ++i) out[i] = partial[i + 2] * factor;
}

}  // namespace
}  // namespace ondol::kernels
