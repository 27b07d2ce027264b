// Thread rule: pure functions.
//
// The kernels, written once over the vocabulary of simd/vec.h. A leaf file defines ONDOL_LEAF,
// includes the header of its vectors and then this one, which ends in the table leaf_ONDOL_LEAF.
// Everything is in unnamed namespaces and nothing of std:: is called: no code compiled for this
// instruction set may be picked by the linker for others.

#include <cstdint>
#include <cstring>

#include "kernels/leaf.h"
#include "kernels/leaf_attention.inc.h"
#include "kernels/leaf_matmul.inc.h"
#include "quant/panels.h"
#include "simd/vec_math.h"

namespace ondol::kernels {
namespace {

using simd::Vec;

/// f(vector, lanes) over x in eights, the last one shorter.
template <class F>
ONDOL_VEC void for_lanes(int64_t n, F f) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) f(i, 8);
  if (i < n) f(i, static_cast<int>(n - i));
}
ONDOL_VEC Vec::F32 lanes(const float* p, int n) {
  return n == 8 ? Vec::fload(p) : Vec::fload_n(p, n);
}
ONDOL_VEC void put(float* p, Vec::F32 a, int n) {
  n == 8 ? Vec::fstore(p, a) : Vec::fstore_n(p, a, n);
}

void rms_norm(float* out, const float* x, const float* weight, int64_t n, float eps) {
  // Four sums side by side hide the latency of fma; they are part of the fixed order.
  Vec::F32 sums[4] = {Vec::fzero(), Vec::fzero(), Vec::fzero(), Vec::fzero()};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    for (int j = 0; j < 4; ++j) {
      const auto v = Vec::fload(x + i + 8 * j);
      sums[j] = Vec::fma(v, v, sums[j]);
    }
  }
  for_lanes(n - i, [&](int64_t k, int count) {
    const auto v = lanes(x + i + k, count);
    sums[0] = Vec::fma(v, v, sums[0]);
  });
  const float sum =
      Vec::reduce(Vec::fadd(Vec::fadd(sums[0], sums[1]), Vec::fadd(sums[2], sums[3])));
  const auto factor = Vec::splat_f(1.0f / __builtin_sqrtf(sum / static_cast<float>(n) + eps));
  for_lanes(n, [&](int64_t k, int count) {
    auto v = Vec::fmul(lanes(x + k, count), factor);
    if (weight != nullptr) v = Vec::fmul(v, lanes(weight + k, count));
    put(out + k, v, count);
  });
}

void add(float* x, const float* y, int64_t n) {
  for_lanes(n, [&](int64_t i, int count) {
    put(x + i, Vec::fadd(lanes(x + i, count), lanes(y + i, count)), count);
  });
}

void scale(float* x, float factor, int64_t n) {
  const auto f = Vec::splat_f(factor);
  for_lanes(n, [&](int64_t i, int count) { put(x + i, Vec::fmul(lanes(x + i, count), f), count); });
}

void softcap(float* x, float cap, int64_t n) {
  const auto c = Vec::splat_f(cap);
  for_lanes(n, [&](int64_t i, int count) {
    put(x + i, Vec::fmul(c, simd::tanh<Vec>(Vec::fdiv(lanes(x + i, count), c))), count);
  });
}

void silu_mul(float* gate, const float* up, int64_t n) {
  for_lanes(n, [&](int64_t i, int count) {
    put(gate + i, Vec::fmul(simd::silu<Vec>(lanes(gate + i, count)), lanes(up + i, count)), count);
  });
}

void gelu_mul(float* gate, const float* up, int64_t n) {
  for_lanes(n, [&](int64_t i, int count) {
    put(gate + i, Vec::fmul(simd::gelu_tanh<Vec>(lanes(gate + i, count)), lanes(up + i, count)),
        count);
  });
}

void rope(float* x, const float* cos, const float* sin, int n_rot, RopeStyle style) {
  const int half = n_rot / 2;
  if (style == RopeStyle::kInterleaved) {
    for (int i = 0; i < half; ++i) {
      const float a = x[2 * i];
      const float b = x[2 * i + 1];
      x[2 * i] = a * cos[i] - b * sin[i];
      x[2 * i + 1] = a * sin[i] + b * cos[i];
    }
    return;
  }
  for_lanes(half, [&](int64_t i, int count) {
    const auto a = lanes(x + i, count);
    const auto b = lanes(x + half + i, count);
    const auto c = lanes(cos + i, count);
    const auto s = lanes(sin + i, count);
    put(x + i, Vec::fsub(Vec::fmul(a, c), Vec::fmul(b, s)), count);
    put(x + half + i, Vec::fadd(Vec::fmul(a, s), Vec::fmul(b, c)), count);
  });
}

#define ONDOL_PANEL_ENTRY(name, Panel) entry<quant::Panel<Wide>>(name),
constexpr LeafDot kDots[] = {ONDOL_QUANT_PANELS(ONDOL_PANEL_ENTRY)};
#undef ONDOL_PANEL_ENTRY

}  // namespace

extern const Leaf ONDOL_LEAF;
const Leaf ONDOL_LEAF = {
    .dots = kDots,
    .n_dots = static_cast<int>(sizeof(kDots) / sizeof(kDots[0])),
    .rows = Wide::kLanes,
    .tile = kTile,
    .quantize32 = quantize32,
    .quantize256 = quantize256,
    .rms_norm = rms_norm,
    .add = add,
    .scale = scale,
    .softcap = softcap,
    .silu_mul = silu_mul,
    .gelu_mul = gelu_mul,
    .rope = rope,
    .store_key = store_key,
    .store_value = store_value,
    .pack_queries = pack_queries,
    .attend = attend,
    .merge = merge,
    .finish = finish,
};

}  // namespace ondol::kernels
