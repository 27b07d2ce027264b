// Thread rule: pure functions. See vec.h.
//
// 256-bit vectors. The compiler's target decides which instructions the dot products get: AVX2
// multiplies with maddubs + madd, AVX-VNNI and AVX-512 VNNI with vpdpbusd / vpdpwssd.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "simd/vec.h"

namespace ondol::simd {
namespace {

struct Vec {
  using Bytes = __m256i;
  using I16 = __m256i;
  using I32 = __m256i;
  using Scale = __m256i;    // 16 int16, the two of an int32 lane alike
  using Factors = __m256i;  // 8 int16, in both halves
  using F32 = __m256;

  ONDOL_VEC Bytes load(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i_u*>(p));
  }
  ONDOL_VEC Bytes join(const void* lo, const void* hi) {
    return _mm256_set_m128i(load16(hi), load16(lo));
  }
  ONDOL_VEC Bytes twice(const void* p) { return _mm256_broadcastsi128_si256(load16(p)); }
  ONDOL_VEC Bytes nibbles(const void* p) {
    const __m256i shifted = _mm256_srlv_epi64(twice(p), _mm256_setr_epi64x(0, 0, 4, 4));
    return _mm256_and_si256(shifted, _mm256_set1_epi8(15));
  }
  ONDOL_VEC Bytes bits(const void* p) {
    int32_t in = 0;
    std::memcpy(&in, p, 4);
    const __m256i spread =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i one = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201u));
    return _mm256_cmpeq_epi8(
        _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(in), spread), one), one);
  }
  ONDOL_VEC void store(void* p, Bytes a) { _mm256_storeu_si256(static_cast<__m256i_u*>(p), a); }
  ONDOL_VEC Bytes or_bits(Bytes a, const void* p, uint8_t b) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    uint32_t where = 0;
    std::memcpy(&where, p, 4);
    return _mm256_mask_add_epi8(a, where, a, splat(b));
#else
    return or_(a, and_(bits(p), splat(b)));
#endif
  }
  ONDOL_VEC Bytes splat(uint8_t b) { return _mm256_set1_epi8(static_cast<char>(b)); }
  ONDOL_VEC Bytes and_(Bytes a, Bytes b) { return _mm256_and_si256(a, b); }
  ONDOL_VEC Bytes or_(Bytes a, Bytes b) { return _mm256_or_si256(a, b); }
  ONDOL_VEC Bytes xor_(Bytes a, Bytes b) { return _mm256_xor_si256(a, b); }
  ONDOL_VEC Bytes add(Bytes a, Bytes b) { return _mm256_add_epi8(a, b); }
  ONDOL_VEC Bytes sub(Bytes a, Bytes b) { return _mm256_sub_epi8(a, b); }
  ONDOL_VEC Bytes abs(Bytes a) { return _mm256_abs_epi8(a); }
  template <int N>
  ONDOL_VEC Bytes shr(Bytes a) {
    return _mm256_and_si256(_mm256_srli_epi16(a, N), splat(0xff >> N));
  }
  template <int N>
  ONDOL_VEC Bytes shl(Bytes a) {
    return _mm256_and_si256(_mm256_slli_epi16(a, N), splat((0xff << N) & 0xff));
  }
  ONDOL_VEC Bytes lookup(const void* table16, Bytes index) {
    return _mm256_shuffle_epi8(twice(table16), index);
  }
  ONDOL_VEC Bytes quantized(F32 a, F32 b, F32 c, F32 d) {
    // The packs work within 128-bit halves; the permutation puts the groups of four bytes back in
    // order.
    const __m256i ab = _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b));
    const __m256i cd = _mm256_packs_epi32(_mm256_cvtps_epi32(c), _mm256_cvtps_epi32(d));
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd),
                                       _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  }

  ONDOL_VEC I32 izero() { return _mm256_setzero_si256(); }
  ONDOL_VEC I32 dot_u8(I32 acc, Bytes w, Bytes x) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return _mm256_dpbusd_epi32(acc, w, x);
#elif defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(acc, w, x);
#else
    return dot_i16(acc, _mm256_maddubs_epi16(w, x), _mm256_set1_epi16(1));
#endif
  }
  ONDOL_VEC I32 dot_i8(I32 acc, Bytes w, Bytes x) {
    return dot_u8(acc, _mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
  }
  ONDOL_VEC I32 dot_u8_scaled(I32 acc, Bytes w, Bytes x, Scale s) {
    return dot_i16(acc, _mm256_maddubs_epi16(w, x), s);
  }
  ONDOL_VEC I32 dot_i8_scaled(I32 acc, Bytes w, Bytes x, Scale s) {
    return dot_u8_scaled(acc, _mm256_abs_epi8(w), _mm256_sign_epi8(x, w), s);
  }
  ONDOL_VEC I32 dot_i16(I32 acc, I16 a, I16 b) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return _mm256_dpwssd_epi32(acc, a, b);
#elif defined(__AVXVNNI__)
    return _mm256_dpwssd_avx_epi32(acc, a, b);
#else
    return _mm256_add_epi32(acc, _mm256_madd_epi16(a, b));
#endif
  }
  ONDOL_VEC void istore(int32_t* p, I32 a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(p), a);
  }

  ONDOL_VEC Scale scale(int s) { return _mm256_set1_epi16(static_cast<int16_t>(s)); }
  ONDOL_VEC Scale scale2(int lo, int hi) {
    return _mm256_set_m128i(_mm_set1_epi16(static_cast<int16_t>(hi)),
                            _mm_set1_epi16(static_cast<int16_t>(lo)));
  }
  ONDOL_VEC Factors factors(uint64_t eight) {
    return _mm256_broadcastsi128_si256(
        _mm_cvtepi8_epi16(_mm_cvtsi64_si128(static_cast<int64_t>(eight))));
  }
  ONDOL_VEC Scale pick(Factors f, int lo, int hi) {
    return _mm256_shuffle_epi8(f, scale2(0x0100 + 0x0202 * lo, 0x0100 + 0x0202 * hi));
  }
  ONDOL_VEC I16 load_i16(const int16_t* p) { return load(p); }
  ONDOL_VEC I16 i16_from_i8(const void* p) { return _mm256_cvtepi8_epi16(load16(p)); }
  ONDOL_VEC I16 i16_twice_from_i8(const void* p) {
    const __m128i in = _mm_loadl_epi64(static_cast<const __m128i_u*>(p));
    return _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(in, in));
  }

  ONDOL_VEC F32 fzero() { return _mm256_setzero_ps(); }
  ONDOL_VEC F32 splat_f(float a) { return _mm256_set1_ps(a); }
  ONDOL_VEC F32 fload(const float* p) { return _mm256_loadu_ps(p); }
  ONDOL_VEC void fstore(float* p, F32 a) { _mm256_storeu_ps(p, a); }
  ONDOL_VEC F32 fload_n(const float* p, int n) { return _mm256_maskload_ps(p, first(n)); }
  ONDOL_VEC void fstore_n(float* p, F32 a, int n) { _mm256_maskstore_ps(p, first(n), a); }
  ONDOL_VEC F32 to_f32(I32 a) { return _mm256_cvtepi32_ps(a); }
  ONDOL_VEC F32 fadd(F32 a, F32 b) { return _mm256_add_ps(a, b); }
  ONDOL_VEC F32 fsub(F32 a, F32 b) { return _mm256_sub_ps(a, b); }
  ONDOL_VEC F32 fmul(F32 a, F32 b) { return _mm256_mul_ps(a, b); }
  ONDOL_VEC F32 fdiv(F32 a, F32 b) { return _mm256_div_ps(a, b); }
  ONDOL_VEC F32 fma(F32 a, F32 b, F32 c) { return _mm256_fmadd_ps(a, b, c); }
  ONDOL_VEC F32 fms(F32 a, F32 b, F32 c) { return _mm256_fmsub_ps(a, b, c); }
  ONDOL_VEC F32 fmax(F32 a, F32 b) { return _mm256_max_ps(a, b); }
  ONDOL_VEC F32 fmin(F32 a, F32 b) { return _mm256_min_ps(a, b); }
  ONDOL_VEC F32 fabs(F32 a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
  ONDOL_VEC F32 round_even(F32 a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  ONDOL_VEC F32 exp2i(F32 n) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
  }
  ONDOL_VEC F32 less(F32 a, F32 b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
  ONDOL_VEC F32 select(F32 mask, F32 yes, F32 no) { return _mm256_blendv_ps(no, yes, mask); }
  ONDOL_VEC F32 copysign(F32 magnitude, F32 sign) {
    return _mm256_or_ps(fabs(magnitude), _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
  }
  ONDOL_VEC F32 load_i8(const void* p) {
    return to_f32(_mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i_u*>(p))));
  }
  ONDOL_VEC F32 load_f32(const void* p) { return _mm256_castsi256_ps(load(p)); }
  ONDOL_VEC F32 load_f16(const void* p) { return _mm256_cvtph_ps(load16(p)); }
  ONDOL_VEC void store_f16(void* p, F32 a) {
    _mm_storeu_si128(static_cast<__m128i_u*>(p), _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
  }
  ONDOL_VEC F32 load_bf16(const void* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load16(p)), 16));
  }
  ONDOL_VEC F32 splat_f16(const void* p) {
    int16_t half = 0;
    std::memcpy(&half, p, 2);
    return _mm256_cvtph_ps(_mm_set1_epi16(half));
  }
  ONDOL_VEC void scale_and_offset(const void* p, F32& scale, F32& offset) {
    int32_t halves = 0;
    std::memcpy(&halves, p, 4);
    const __m128 both = _mm_cvtph_ps(_mm_cvtsi32_si128(halves));
    scale = _mm256_broadcastss_ps(both);
    offset = _mm256_blend_ps(_mm256_setzero_ps(), _mm256_castps128_ps256(both), 2);
  }
  ONDOL_VEC float f16(const void* p) {
    uint16_t half = 0;
    std::memcpy(&half, p, 2);
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
  }
  ONDOL_VEC float reduce(F32 a) {
    const __m128 lo = _mm256_castps256_ps128(a);
    const __m128 hi = _mm256_extractf128_ps(a, 1);
    const __m128 pairs = _mm_hadd_ps(lo, hi);  // a0+a1, a2+a3, a4+a5, a6+a7
    const __m128 fours = _mm_hadd_ps(pairs, pairs);
    return _mm_cvtss_f32(_mm_hadd_ps(fours, fours));
  }
  ONDOL_VEC F32 reduce8(const F32 (&a)[8]) {
    const __m256 a01 = _mm256_hadd_ps(a[0], a[1]);
    const __m256 a23 = _mm256_hadd_ps(a[2], a[3]);
    const __m256 a45 = _mm256_hadd_ps(a[4], a[5]);
    const __m256 a67 = _mm256_hadd_ps(a[6], a[7]);
    const __m256 a0123 =
        _mm256_hadd_ps(a01, a23);  // per half: the sums of four lanes of a0, a1, a2, a3
    const __m256 a4567 = _mm256_hadd_ps(a45, a67);
    return _mm256_add_ps(_mm256_permute2f128_ps(a0123, a4567, 0x20),
                         _mm256_permute2f128_ps(a0123, a4567, 0x31));
  }
  ONDOL_VEC float reduce_max(F32 a) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
  }

 private:
  ONDOL_VEC __m128i load16(const void* p) {
    return _mm_loadu_si128(static_cast<const __m128i_u*>(p));
  }
  ONDOL_VEC __m256i first(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};

}  // namespace
}  // namespace ondol::simd
