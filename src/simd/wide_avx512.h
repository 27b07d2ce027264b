// Thread rule: pure functions. See wide.h.
//
// 512-bit vectors: AVX-512 F, BW, DQ, VL, and VNNI where the compiler's target has it.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "simd/wide.h"

namespace ondol::simd {
namespace {

struct Wide {
  static constexpr int kTile = 8;
  static constexpr int kLanes = 16;
  using I32 = __m512i;
  using F32 = __m512;
  using Part = __m512i;
#if defined(__AVX512VNNI__)
  template <int kMax>
  static constexpr int kSteps = 64;
  static constexpr int kSignedLift = 128;
  static constexpr bool kWholeParts = true;
#else
  template <int kMax>
  static constexpr int kSteps = kMax == kSigned ? 1 : 32767 / (2 * 127 * kMax);
  static constexpr int kSignedLift = 0;
  static constexpr bool kWholeParts = false;
#endif

  template <class T>
  ONDOL_VEC T at(const void* p) {
    T value;
    __builtin_memcpy(&value, p, sizeof value);
    return value;
  }
  ONDOL_VEC I32 izero() { return _mm512_setzero_si512(); }
  ONDOL_VEC I32 splat32(int32_t a) { return _mm512_set1_epi32(a); }
  ONDOL_VEC I32 iload(const void* p) { return _mm512_loadu_si512(p); }
  ONDOL_VEC void istore(int32_t* p, I32 a) { _mm512_storeu_si512(p, a); }
  ONDOL_VEC I32 and_(I32 a, I32 b) { return _mm512_and_si512(a, b); }
  ONDOL_VEC I32 or_(I32 a, I32 b) { return _mm512_or_si512(a, b); }
  ONDOL_VEC I32 xor_(I32 a, I32 b) { return _mm512_xor_si512(a, b); }
  ONDOL_VEC I32 add32(I32 a, I32 b) { return _mm512_add_epi32(a, b); }
  ONDOL_VEC I32 sub32(I32 a, I32 b) { return _mm512_sub_epi32(a, b); }
  ONDOL_VEC I32 mul32(I32 a, I32 b) { return _mm512_mullo_epi32(a, b); }
  template <int N>
  ONDOL_VEC I32 shl(I32 a) {
    return _mm512_slli_epi32(a, N);
  }
  template <int N>
  ONDOL_VEC I32 shr(I32 a) {
    return _mm512_srli_epi32(a, N);
  }
  template <int N>
  ONDOL_VEC I32 sra(I32 a) {
    return _mm512_srai_epi32(a, N);
  }
  ONDOL_VEC I32 lookup(const void* table16, I32 a) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(load16(table16)), a);
  }
  ONDOL_VEC void load_rows(const uint8_t* p, size_t stride, I32 (&out)[4]) {
    const __m512i r0 = four_rows(p, 4 * stride);
    const __m512i r1 = four_rows(p + stride, 4 * stride);
    const __m512i r2 = four_rows(p + 2 * stride, 4 * stride);
    const __m512i r3 = four_rows(p + 3 * stride, 4 * stride);
    const __m512i lo01 = _mm512_unpacklo_epi32(r0, r1);
    const __m512i hi01 = _mm512_unpackhi_epi32(r0, r1);
    const __m512i lo23 = _mm512_unpacklo_epi32(r2, r3);
    const __m512i hi23 = _mm512_unpackhi_epi32(r2, r3);
    out[0] = _mm512_unpacklo_epi64(lo01, lo23);
    out[1] = _mm512_unpackhi_epi64(lo01, lo23);
    out[2] = _mm512_unpacklo_epi64(hi01, hi23);
    out[3] = _mm512_unpackhi_epi64(hi01, hi23);
  }
  ONDOL_VEC I32 load_u32(const uint8_t* p, size_t s) { return gather<int32_t>(p, s); }
  ONDOL_VEC I32 load_u16(const uint8_t* p, size_t s) { return gather<uint16_t>(p, s); }
  ONDOL_VEC I32 load_u8(const uint8_t* p, size_t s) { return gather<uint8_t>(p, s); }

  ONDOL_VEC F32 fzero() { return _mm512_setzero_ps(); }
  ONDOL_VEC F32 splat_f(float a) { return _mm512_set1_ps(a); }
  ONDOL_VEC F32 fload(const float* p) { return _mm512_loadu_ps(p); }
  ONDOL_VEC void fstore(float* p, F32 a) { _mm512_storeu_ps(p, a); }
  ONDOL_VEC F32 fload_n(const float* p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }
  ONDOL_VEC void fstore_n(float* p, F32 a, int n) { _mm512_mask_storeu_ps(p, first(n), a); }
  ONDOL_VEC F32 as_f32(I32 a) { return _mm512_castsi512_ps(a); }
  ONDOL_VEC F32 to_f32(I32 a) { return _mm512_cvtepi32_ps(a); }
  ONDOL_VEC F32 halves(I32 a) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)); }
  ONDOL_VEC F32 high_halves(I32 a) { return halves(shr<16>(a)); }
  ONDOL_VEC F32 fadd(F32 a, F32 b) { return _mm512_add_ps(a, b); }
  ONDOL_VEC F32 fsub(F32 a, F32 b) { return _mm512_sub_ps(a, b); }
  ONDOL_VEC F32 fmul(F32 a, F32 b) { return _mm512_mul_ps(a, b); }
  ONDOL_VEC F32 fdiv(F32 a, F32 b) { return _mm512_div_ps(a, b); }
  ONDOL_VEC F32 fmax(F32 a, F32 b) { return _mm512_max_ps(a, b); }
  ONDOL_VEC F32 fma(F32 a, F32 b, F32 c) { return _mm512_fmadd_ps(a, b, c); }
  ONDOL_VEC F32 fmin(F32 a, F32 b) { return _mm512_min_ps(a, b); }
  ONDOL_VEC F32 fabs(F32 a) { return _mm512_abs_ps(a); }
  ONDOL_VEC F32 round_even(F32 a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  ONDOL_VEC I32 to_i32(F32 a) { return _mm512_cvtps_epi32(a); }
  ONDOL_VEC F32 times_exp2(F32 a, F32 n) { return _mm512_scalef_ps(a, n); }
  ONDOL_VEC F32 exp2i(F32 n) { return times_exp2(splat_f(1.0f), n); }
  ONDOL_VEC __mmask16 less(F32 a, F32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  ONDOL_VEC F32 select(__mmask16 mask, F32 yes, F32 no) {
    return _mm512_mask_blend_ps(mask, no, yes);
  }
  ONDOL_VEC F32 copysign(F32 magnitude, F32 sign) {
    return _mm512_or_ps(fabs(magnitude), _mm512_and_ps(_mm512_set1_ps(-0.0f), sign));
  }
  ONDOL_VEC float reduce(F32 a) {
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 m = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    m = _mm_add_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_add_ss(m, _mm_movehdup_ps(m)));
  }
  ONDOL_VEC float reduce_max(F32 a) {
    const __m256 half = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
  }
  ONDOL_VEC F32 load_f16(const void* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i_u*>(p)));
  }
  ONDOL_VEC F32 load_i8(const void* p) { return to_f32(_mm512_cvtepi8_epi32(load16(p))); }
  ONDOL_VEC I32 even_bytes(I32 a) { return _mm512_srai_epi16(_mm512_slli_epi16(a, 8), 8); }
  ONDOL_VEC I32 odd_bytes(I32 a) { return _mm512_srai_epi16(a, 8); }

  template <int kMax>
  ONDOL_VEC Part part_zero() {
    return izero();
  }
  template <int kMax>
  ONDOL_VEC Part part_add(Part part, I32 codes, const int8_t* x) {
    const __m512i four = splat32(at<int32_t>(x));
#if defined(__AVX512VNNI__)
    return _mm512_dpbusd_epi32(part, codes, four);
#else
    if constexpr (kMax == kSigned) {
      // No sign instruction of this width: negate the activations where the code is negative.
      const __m512i x_signed =
          _mm512_mask_sub_epi8(four, _mm512_movepi8_mask(codes), izero(), four);
      return in_place(
          _mm512_add_epi16(part, _mm512_maddubs_epi16(_mm512_abs_epi8(codes), x_signed)));
    }
    return in_place(_mm512_add_epi16(part, _mm512_maddubs_epi16(codes, four)));
#endif
  }
  template <int kMax>
  ONDOL_VEC I32 widen(I32 acc, Part part) {
#if defined(__AVX512VNNI__)
    return add32(acc, part);
#else
    return add32(acc, _mm512_madd_epi16(part, _mm512_set1_epi16(1)));
#endif
  }
  template <int kMax>
  ONDOL_VEC I32 widen_scaled(I32 acc, Part part, I32 factor) {
#if defined(__AVX512VNNI__)
    return add32(acc, mul32(part, factor));
#else
    return add32(acc, _mm512_madd_epi16(part, factor));
#endif
  }
  ONDOL_VEC I32 scale(I32 a) {
#if defined(__AVX512VNNI__)
    return a;
#else
    return or_(and_(a, splat32(0xffff)), shl<16>(a));
#endif
  }
  ONDOL_VEC I32 signed_codes(I32 a) {
    return kSignedLift == 0 ? a : xor_(a, _mm512_set1_epi8(-128));
  }
  ONDOL_VEC I32 dot_i16(I32 acc, I32 pairs, const int16_t* x) {
    const __m512i two = splat32(at<int32_t>(x));
#if defined(__AVX512VNNI__)
    return _mm512_dpwssd_epi32(acc, pairs, two);
#else
    return add32(acc, _mm512_madd_epi16(pairs, two));
#endif
  }

 private:
  /// The same value, computed where it is written: GCC would put all products first and their sums
  /// last, and run out of registers.
  ONDOL_VEC Part in_place(Part a) {
    asm("" : "+v"(a));
    return a;
  }
  ONDOL_VEC __m128i load16(const void* p) {
    return _mm_loadu_si128(static_cast<const __m128i_u*>(p));
  }
  ONDOL_VEC __m512i four_rows(const uint8_t* p, size_t distance) {
    __m512i rows = _mm512_castsi128_si512(load16(p));
    rows = _mm512_inserti32x4(rows, load16(p + distance), 1);
    rows = _mm512_inserti32x4(rows, load16(p + 2 * distance), 2);
    return _mm512_inserti32x4(rows, load16(p + 3 * distance), 3);
  }
  template <class T>
  ONDOL_VEC I32 gather(const uint8_t* p, size_t s) {
    const auto four = [&](const uint8_t* q) {
      return _mm_setr_epi32(at<T>(q), at<T>(q + s), at<T>(q + 2 * s), at<T>(q + 3 * s));
    };
    __m512i all = _mm512_castsi128_si512(four(p));
    all = _mm512_inserti32x4(all, four(p + 4 * s), 1);
    all = _mm512_inserti32x4(all, four(p + 8 * s), 2);
    return _mm512_inserti32x4(all, four(p + 12 * s), 3);
  }
  ONDOL_VEC __mmask16 first(int n) { return static_cast<__mmask16>((1u << n) - 1); }
};

}  // namespace
}  // namespace ondol::simd
