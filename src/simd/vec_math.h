// Thread rule: pure functions.
//
// Functions of floats, written once over the vocabulary of vec.h.
#pragma once

#include "simd/vec.h"

namespace ondol::simd {

/// e^x, within about 2 units in the last place. Below -86 it is 0, from 89 on infinite; NaN stays.
template <class V>
ONDOL_VEC typename V::F32 exp(typename V::F32 x) {
  // x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor series, whose rest after r^7 is below
  // 6e-9.
  const auto low = V::splat_f(-86.0f);
  const auto bounded = V::fmin(V::splat_f(89.0f), V::fmax(low, x));
  const auto n = V::round_even(V::fmul(bounded, V::splat_f(1.44269504088896341f)));
  // ln 2 in two parts: the first has 12 zero bits at its end, so that n times it is exact.
  auto r = V::fma(n, V::splat_f(-0x1.62ep-1f), bounded);
  r = V::fma(n, V::splat_f(-0x1.0bfbe8p-15f), r);
  auto p = V::splat_f(1.0f / 5040);
  p = V::fma(p, r, V::splat_f(1.0f / 720));
  p = V::fma(p, r, V::splat_f(1.0f / 120));
  p = V::fma(p, r, V::splat_f(1.0f / 24));
  p = V::fma(p, r, V::splat_f(1.0f / 6));
  p = V::fma(p, r, V::splat_f(0.5f));
  p = V::fma(p, r, V::splat_f(1.0f));
  p = V::fma(p, r, V::splat_f(1.0f));
  // 2^n in two factors, because 2^128 is not a float although e^x may still be.
  const auto power = V::exp2i(V::fsub(n, V::splat_f(1.0f)));
  const auto result = V::fmul(V::fmul(p, power), V::splat_f(2.0f));
  return V::select(V::less(x, low), V::fzero(), result);
}

/// tanh(x), within a few units in the last place for every x.
template <class V>
ONDOL_VEC typename V::F32 tanh(typename V::F32 x) {
  const auto a = V::fabs(x);
  const auto one = V::splat_f(1.0f);
  const auto e = exp<V>(V::fmul(a, V::splat_f(-2.0f)));
  const auto large = V::fdiv(V::fsub(one, e), V::fadd(one, e));
  // The difference above cancels near 0; there the series x - x^3/3 + 2 x^5/15 - ... does better.
  const auto s = V::fmul(a, a);
  auto p = V::splat_f(-1382.0f / 155925);
  p = V::fma(p, s, V::splat_f(62.0f / 2835));
  p = V::fma(p, s, V::splat_f(-17.0f / 315));
  p = V::fma(p, s, V::splat_f(2.0f / 15));
  p = V::fma(p, s, V::splat_f(-1.0f / 3));
  const auto small = V::fma(V::fmul(p, s), a, a);
  return V::copysign(V::select(V::less(a, V::splat_f(0.35f)), small, large), x);
}

/// x / (1 + e^-x)
template <class V>
ONDOL_VEC typename V::F32 silu(typename V::F32 x) {
  const auto e = exp<V>(V::fsub(V::fzero(), x));
  return V::fdiv(x, V::fadd(V::splat_f(1.0f), e));
}

/// 0.5 x (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3), which is x / (1 + e^-2u).
template <class V>
ONDOL_VEC typename V::F32 gelu_tanh(typename V::F32 x) {
  const auto cubic = V::fma(V::fmul(x, x), V::splat_f(0.044715f), V::splat_f(1.0f));
  const auto u2 = V::fmul(V::fmul(x, V::splat_f(-2 * 0.797884560802865356f)), cubic);
  return V::fdiv(x, V::fadd(V::splat_f(1.0f), exp<V>(u2)));
}

}  // namespace ondol::simd
