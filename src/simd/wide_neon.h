// Thread rule: pure functions. See wide.h.
//
// 128-bit vectors with the dot product extension (Armv8.2 dotprod).
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "simd/wide.h"

namespace ondol::simd {
namespace {

struct Wide {
  static constexpr int kLanes = 4;
  using I32 = int32x4_t;
  using F32 = float32x4_t;
  using Part = int32x4_t;
  template <int kMax>
  static constexpr int kSteps = 64;
  static constexpr int kSignedLift = 0;
  static constexpr bool kWholeParts = true;
  static constexpr int kTile = 8;

  template <class T>
  ONDOL_VEC T at(const void* p) {
    T value;
    __builtin_memcpy(&value, p, sizeof value);
    return value;
  }
  ONDOL_VEC I32 izero() { return vdupq_n_s32(0); }
  ONDOL_VEC I32 splat32(int32_t a) { return vdupq_n_s32(a); }
  ONDOL_VEC I32 iload(const void* p) {
    return vreinterpretq_s32_u8(load16(static_cast<const uint8_t*>(p)));
  }
  ONDOL_VEC void istore(int32_t* p, I32 a) { vst1q_s32(p, a); }
  ONDOL_VEC I32 and_(I32 a, I32 b) { return vandq_s32(a, b); }
  ONDOL_VEC I32 or_(I32 a, I32 b) { return vorrq_s32(a, b); }
  ONDOL_VEC I32 xor_(I32 a, I32 b) { return veorq_s32(a, b); }
  ONDOL_VEC I32 add32(I32 a, I32 b) { return vaddq_s32(a, b); }
  ONDOL_VEC I32 sub32(I32 a, I32 b) { return vsubq_s32(a, b); }
  ONDOL_VEC I32 mul32(I32 a, I32 b) { return vmulq_s32(a, b); }
  template <int N>
  ONDOL_VEC I32 shl(I32 a) {
    return vshlq_n_s32(a, N);
  }
  template <int N>
  ONDOL_VEC I32 shr(I32 a) {
    return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a), N));
  }
  template <int N>
  ONDOL_VEC I32 sra(I32 a) {
    return vshrq_n_s32(a, N);
  }
  ONDOL_VEC I32 lookup(const void* table16, I32 a) {
    return vreinterpretq_s32_u8(vqtbl1q_u8(load16(table16), vreinterpretq_u8_s32(a)));
  }
  ONDOL_VEC void load_rows(const uint8_t* p, size_t stride, I32 (&out)[4]) {
    const int32x4_t r0 = vreinterpretq_s32_u8(load16(p));
    const int32x4_t r1 = vreinterpretq_s32_u8(load16(p + stride));
    const int32x4_t r2 = vreinterpretq_s32_u8(load16(p + 2 * stride));
    const int32x4_t r3 = vreinterpretq_s32_u8(load16(p + 3 * stride));
    const int64x2_t even01 = vreinterpretq_s64_s32(vtrn1q_s32(r0, r1));  // r0d0 r1d0 r0d2 r1d2
    const int64x2_t odd01 = vreinterpretq_s64_s32(vtrn2q_s32(r0, r1));
    const int64x2_t even23 = vreinterpretq_s64_s32(vtrn1q_s32(r2, r3));
    const int64x2_t odd23 = vreinterpretq_s64_s32(vtrn2q_s32(r2, r3));
    out[0] = vreinterpretq_s32_s64(vtrn1q_s64(even01, even23));
    out[1] = vreinterpretq_s32_s64(vtrn1q_s64(odd01, odd23));
    out[2] = vreinterpretq_s32_s64(vtrn2q_s64(even01, even23));
    out[3] = vreinterpretq_s32_s64(vtrn2q_s64(odd01, odd23));
  }
  ONDOL_VEC I32 load_u32(const uint8_t* p, size_t s) { return gather<int32_t>(p, s); }
  ONDOL_VEC I32 load_u16(const uint8_t* p, size_t s) { return gather<uint16_t>(p, s); }
  ONDOL_VEC I32 load_u8(const uint8_t* p, size_t s) { return gather<uint8_t>(p, s); }

  ONDOL_VEC F32 fzero() { return vdupq_n_f32(0.0f); }
  ONDOL_VEC F32 splat_f(float a) { return vdupq_n_f32(a); }
  ONDOL_VEC F32 fload(const float* p) { return vld1q_f32(p); }
  ONDOL_VEC void fstore(float* p, F32 a) { vst1q_f32(p, a); }
  ONDOL_VEC F32 fload_n(const float* p, int n) {
    float lanes[kLanes] = {};
    __builtin_memcpy(lanes, p, static_cast<size_t>(n) * sizeof(float));
    return vld1q_f32(lanes);
  }
  ONDOL_VEC void fstore_n(float* p, F32 a, int n) {
    float lanes[kLanes];
    vst1q_f32(lanes, a);
    __builtin_memcpy(p, lanes, static_cast<size_t>(n) * sizeof(float));
  }
  ONDOL_VEC F32 as_f32(I32 a) { return vreinterpretq_f32_s32(a); }
  ONDOL_VEC F32 to_f32(I32 a) { return vcvtq_f32_s32(a); }
  ONDOL_VEC F32 halves(I32 a) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(vreinterpretq_u32_s32(a))));
  }
  ONDOL_VEC F32 high_halves(I32 a) { return halves(shr<16>(a)); }
  ONDOL_VEC F32 fadd(F32 a, F32 b) { return vaddq_f32(a, b); }
  ONDOL_VEC F32 fsub(F32 a, F32 b) { return vsubq_f32(a, b); }
  ONDOL_VEC F32 fmul(F32 a, F32 b) { return vmulq_f32(a, b); }
  ONDOL_VEC F32 fdiv(F32 a, F32 b) { return vdivq_f32(a, b); }
  ONDOL_VEC F32 fmax(F32 a, F32 b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  ONDOL_VEC F32 fma(F32 a, F32 b, F32 c) { return vfmaq_f32(c, a, b); }
  ONDOL_VEC F32 fmin(F32 a, F32 b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
  ONDOL_VEC F32 fabs(F32 a) { return vabsq_f32(a); }
  ONDOL_VEC F32 round_even(F32 a) { return vrndnq_f32(a); }
  ONDOL_VEC I32 to_i32(F32 a) { return vcvtnq_s32_f32(a); }
  ONDOL_VEC F32 times_exp2(F32 a, F32 n) {
    return vreinterpretq_f32_s32(add32(vreinterpretq_s32_f32(a), shl<23>(to_i32(n))));
  }
  ONDOL_VEC F32 exp2i(F32 n) { return times_exp2(splat_f(1.0f), n); }
  ONDOL_VEC uint32x4_t less(F32 a, F32 b) { return vcltq_f32(a, b); }
  ONDOL_VEC F32 select(uint32x4_t mask, F32 yes, F32 no) { return vbslq_f32(mask, yes, no); }
  ONDOL_VEC F32 copysign(F32 magnitude, F32 sign) {
    return vbslq_f32(vdupq_n_u32(0x80000000u), sign, magnitude);
  }
  ONDOL_VEC float reduce(F32 a) { return vaddvq_f32(a); }
  ONDOL_VEC float reduce_max(F32 a) { return vmaxvq_f32(a); }
  ONDOL_VEC F32 load_f16(const void* p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(static_cast<const uint16_t*>(p))));
  }
  ONDOL_VEC F32 load_i8(const void* p) {
    const int8x8_t bytes = vreinterpret_s8_s32(vdup_n_s32(at<int32_t>(p)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
  }
  ONDOL_VEC I32 even_bytes(I32 a) {
    return vreinterpretq_s32_s16(vshrq_n_s16(vshlq_n_s16(vreinterpretq_s16_s32(a), 8), 8));
  }
  ONDOL_VEC I32 odd_bytes(I32 a) {
    return vreinterpretq_s32_s16(vshrq_n_s16(vreinterpretq_s16_s32(a), 8));
  }

  template <int kMax>
  ONDOL_VEC Part part_zero() {
    return izero();
  }
  template <int kMax>
  ONDOL_VEC Part part_add(Part part, I32 codes, const int8_t* x) {
    static_assert(kMax <= 127 || kMax == kSigned, "codes are signed bytes here");
    return vdotq_s32(part, vreinterpretq_s8_s32(codes),
                     vreinterpretq_s8_s32(splat32(at<int32_t>(x))));
  }
  template <int kMax>
  ONDOL_VEC I32 widen(I32 acc, Part part) {
    return add32(acc, part);
  }
  template <int kMax>
  ONDOL_VEC I32 widen_scaled(I32 acc, Part part, I32 factor) {
    return vmlaq_s32(acc, part, factor);
  }
  ONDOL_VEC I32 scale(I32 a) { return a; }
  ONDOL_VEC I32 signed_codes(I32 a) { return a; }
  ONDOL_VEC I32 dot_i16(I32 acc, I32 pairs, const int16_t* x) {
    const int16x8_t two = vreinterpretq_s16_s32(splat32(at<int32_t>(x)));
    const int16x8_t p = vreinterpretq_s16_s32(pairs);
    const int32x4_t low = vmull_s16(vget_low_s16(p), vget_low_s16(two));
    return add32(acc, vpaddq_s32(low, vmull_high_s16(p, two)));
  }

 private:
  ONDOL_VEC uint8x16_t load16(const void* p) { return vld1q_u8(static_cast<const uint8_t*>(p)); }
  template <class T>
  ONDOL_VEC I32 gather(const uint8_t* p, size_t s) {
    const int32_t lanes[kLanes] = {
        static_cast<int32_t>(at<T>(p)), static_cast<int32_t>(at<T>(p + s)),
        static_cast<int32_t>(at<T>(p + 2 * s)), static_cast<int32_t>(at<T>(p + 3 * s))};
    return vld1q_s32(lanes);
  }
};

}  // namespace
}  // namespace ondol::simd
