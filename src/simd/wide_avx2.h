// Thread rule: pure functions. See wide.h.
//
// 256-bit vectors: AVX2, and AVX-VNNI where the compiler's target has it. Without VNNI products are
// summed in 16 bits as long as they fit, which the largest code decides, and widened by a multiply
// that has the factor of the sub-block for nothing.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "simd/wide.h"

namespace ondol::simd {
namespace {

struct Wide {
  static constexpr int kTile = 4;
  static constexpr int kLanes = 8;
  using I32 = __m256i;
  using F32 = __m256;
  using Part = __m256i;
#if defined(__AVXVNNI__)
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
  ONDOL_VEC I32 izero() { return _mm256_setzero_si256(); }
  ONDOL_VEC I32 splat32(int32_t a) { return _mm256_set1_epi32(a); }
  ONDOL_VEC I32 iload(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i_u*>(p));
  }
  ONDOL_VEC void istore(int32_t* p, I32 a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(p), a);
  }
  ONDOL_VEC I32 and_(I32 a, I32 b) { return _mm256_and_si256(a, b); }
  ONDOL_VEC I32 or_(I32 a, I32 b) { return _mm256_or_si256(a, b); }
  ONDOL_VEC I32 xor_(I32 a, I32 b) { return _mm256_xor_si256(a, b); }
  ONDOL_VEC I32 add32(I32 a, I32 b) { return _mm256_add_epi32(a, b); }
  ONDOL_VEC I32 sub32(I32 a, I32 b) { return _mm256_sub_epi32(a, b); }
  ONDOL_VEC I32 mul32(I32 a, I32 b) { return _mm256_mullo_epi32(a, b); }
  template <int N>
  ONDOL_VEC I32 shl(I32 a) {
    return _mm256_slli_epi32(a, N);
  }
  template <int N>
  ONDOL_VEC I32 shr(I32 a) {
    return _mm256_srli_epi32(a, N);
  }
  template <int N>
  ONDOL_VEC I32 sra(I32 a) {
    return _mm256_srai_epi32(a, N);
  }
  ONDOL_VEC I32 lookup(const void* table16, I32 a) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load16(table16)), a);
  }
  ONDOL_VEC void load_rows(const uint8_t* p, size_t stride, I32 (&out)[4]) {
    const __m256i r0 = two_rows(p, 4 * stride);
    const __m256i r1 = two_rows(p + stride, 4 * stride);
    const __m256i r2 = two_rows(p + 2 * stride, 4 * stride);
    const __m256i r3 = two_rows(p + 3 * stride, 4 * stride);
    const __m256i lo01 = _mm256_unpacklo_epi32(r0, r1);
    const __m256i hi01 = _mm256_unpackhi_epi32(r0, r1);
    const __m256i lo23 = _mm256_unpacklo_epi32(r2, r3);
    const __m256i hi23 = _mm256_unpackhi_epi32(r2, r3);
    out[0] = _mm256_unpacklo_epi64(lo01, lo23);
    out[1] = _mm256_unpackhi_epi64(lo01, lo23);
    out[2] = _mm256_unpacklo_epi64(hi01, hi23);
    out[3] = _mm256_unpackhi_epi64(hi01, hi23);
  }
  ONDOL_VEC I32 load_u32(const uint8_t* p, size_t s) { return gather<int32_t>(p, s); }
  ONDOL_VEC I32 load_u16(const uint8_t* p, size_t s) { return gather<uint16_t>(p, s); }
  ONDOL_VEC I32 load_u8(const uint8_t* p, size_t s) { return gather<uint8_t>(p, s); }

  ONDOL_VEC F32 fzero() { return _mm256_setzero_ps(); }
  ONDOL_VEC F32 splat_f(float a) { return _mm256_set1_ps(a); }
  ONDOL_VEC F32 fload(const float* p) { return _mm256_loadu_ps(p); }
  ONDOL_VEC void fstore(float* p, F32 a) { _mm256_storeu_ps(p, a); }
  ONDOL_VEC F32 fload_n(const float* p, int n) { return _mm256_maskload_ps(p, first(n)); }
  ONDOL_VEC void fstore_n(float* p, F32 a, int n) { _mm256_maskstore_ps(p, first(n), a); }
  ONDOL_VEC F32 as_f32(I32 a) { return _mm256_castsi256_ps(a); }
  ONDOL_VEC F32 to_f32(I32 a) { return _mm256_cvtepi32_ps(a); }
  ONDOL_VEC F32 halves(I32 a) {
    const __m256i low = _mm256_and_si256(a, _mm256_set1_epi32(0xffff));
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
  }
  ONDOL_VEC F32 high_halves(I32 a) { return halves(shr<16>(a)); }
  ONDOL_VEC F32 fadd(F32 a, F32 b) { return _mm256_add_ps(a, b); }
  ONDOL_VEC F32 fsub(F32 a, F32 b) { return _mm256_sub_ps(a, b); }
  ONDOL_VEC F32 fmul(F32 a, F32 b) { return _mm256_mul_ps(a, b); }
  ONDOL_VEC F32 fdiv(F32 a, F32 b) { return _mm256_div_ps(a, b); }
  ONDOL_VEC F32 fmax(F32 a, F32 b) { return _mm256_max_ps(a, b); }
  ONDOL_VEC F32 fma(F32 a, F32 b, F32 c) { return _mm256_fmadd_ps(a, b, c); }
  ONDOL_VEC F32 fmin(F32 a, F32 b) { return _mm256_min_ps(a, b); }
  ONDOL_VEC F32 fabs(F32 a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
  ONDOL_VEC F32 round_even(F32 a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  ONDOL_VEC I32 to_i32(F32 a) { return _mm256_cvtps_epi32(a); }
  ONDOL_VEC F32 times_exp2(F32 a, F32 n) {
    return _mm256_castsi256_ps(add32(_mm256_castps_si256(a), shl<23>(to_i32(n))));
  }
  ONDOL_VEC F32 exp2i(F32 n) { return times_exp2(splat_f(1.0f), n); }
  ONDOL_VEC F32 less(F32 a, F32 b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
  ONDOL_VEC F32 select(F32 mask, F32 yes, F32 no) { return _mm256_blendv_ps(no, yes, mask); }
  ONDOL_VEC F32 copysign(F32 magnitude, F32 sign) {
    return _mm256_or_ps(fabs(magnitude), _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
  }
  ONDOL_VEC float reduce(F32 a) {
    const __m128 lo = _mm256_castps256_ps128(a);
    const __m128 hi = _mm256_extractf128_ps(a, 1);
    const __m128 pairs = _mm_hadd_ps(lo, hi);
    const __m128 fours = _mm_hadd_ps(pairs, pairs);
    return _mm_cvtss_f32(_mm_hadd_ps(fours, fours));
  }
  ONDOL_VEC float reduce_max(F32 a) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
  }
  ONDOL_VEC F32 load_f16(const void* p) { return _mm256_cvtph_ps(load16(p)); }
  ONDOL_VEC F32 load_i8(const void* p) {
    return to_f32(_mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i_u*>(p))));
  }
  ONDOL_VEC I32 even_bytes(I32 a) { return _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8); }
  ONDOL_VEC I32 odd_bytes(I32 a) { return _mm256_srai_epi16(a, 8); }

  template <int kMax>
  ONDOL_VEC Part part_zero() {
    return izero();
  }
  template <int kMax>
  ONDOL_VEC Part part_add(Part part, I32 codes, const int8_t* x) {
    const __m256i four = splat32(at<int32_t>(x));
#if defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(part, codes, four);
#else
    if constexpr (kMax == kSigned) {
      const __m256i products =
          _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(four, codes));
      return in_place(_mm256_add_epi16(part, products));
    }
    return in_place(_mm256_add_epi16(part, _mm256_maddubs_epi16(codes, four)));
#endif
  }
  template <int kMax>
  ONDOL_VEC I32 widen(I32 acc, Part part) {
#if defined(__AVXVNNI__)
    return add32(acc, part);
#else
    return add32(acc, _mm256_madd_epi16(part, _mm256_set1_epi16(1)));
#endif
  }
  template <int kMax>
  ONDOL_VEC I32 widen_scaled(I32 acc, Part part, I32 factor) {
#if defined(__AVXVNNI__)
    return add32(acc, mul32(part, factor));
#else
    return add32(acc, _mm256_madd_epi16(part, factor));
#endif
  }
  ONDOL_VEC I32 scale(I32 a) {
#if defined(__AVXVNNI__)
    return a;
#else
    return or_(and_(a, splat32(0xffff)), shl<16>(a));
#endif
  }
  ONDOL_VEC I32 signed_codes(I32 a) {
    return kSignedLift == 0 ? a : xor_(a, _mm256_set1_epi8(-128));
  }
  ONDOL_VEC I32 dot_i16(I32 acc, I32 pairs, const int16_t* x) {
    const __m256i two = splat32(at<int32_t>(x));
#if defined(__AVXVNNI__)
    return _mm256_dpwssd_avx_epi32(acc, pairs, two);
#else
    return add32(acc, _mm256_madd_epi16(pairs, two));
#endif
  }

 private:
  /// The same value, computed where it is written: GCC would put all products first and their sums
  /// last, and run out of registers.
  ONDOL_VEC Part in_place(Part a) {
    asm("" : "+x"(a));
    return a;
  }
  ONDOL_VEC __m128i load16(const void* p) {
    return _mm_loadu_si128(static_cast<const __m128i_u*>(p));
  }
  ONDOL_VEC __m256i two_rows(const uint8_t* p, size_t distance) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load16(p)), load16(p + distance), 1);
  }
  template <class T>
  ONDOL_VEC I32 gather(const uint8_t* p, size_t s) {
    const uint8_t* q = p + 4 * s;
    return _mm256_setr_epi32(at<T>(p), at<T>(p + s), at<T>(p + 2 * s), at<T>(p + 3 * s), at<T>(q),
                             at<T>(q + s), at<T>(q + 2 * s), at<T>(q + 3 * s));
  }
  ONDOL_VEC __m256i first(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};

}  // namespace
}  // namespace ondol::simd
