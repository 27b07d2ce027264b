// Thread rule: pure functions. See vec.h.
//
// Pairs of 128-bit vectors; needs the dot product extension (Armv8.2 dotprod).
#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

#include "simd/vec.h"

namespace ondol::simd {
namespace {

struct Vec {
  struct Bytes {
    uint8x16_t v[2];
  };
  struct I16 {
    int16x8_t v[2];
  };
  struct I32 {
    int32x4_t v[2];
  };
  struct F32 {
    float32x4_t v[2];
  };
  using Scale = I32;
  struct Factors {
    int32x4_t v[2];
  };

  ONDOL_VEC Bytes load(const void* p) {
    return {{load16(p), load16(static_cast<const uint8_t*>(p) + 16)}};
  }
  ONDOL_VEC Bytes join(const void* lo, const void* hi) { return {{load16(lo), load16(hi)}}; }
  ONDOL_VEC Bytes twice(const void* p) { return join(p, p); }
  ONDOL_VEC Bytes nibbles(const void* p) {
    const uint8x16_t in = load16(p);
    return {{vandq_u8(in, vdupq_n_u8(15)), vshrq_n_u8(in, 4)}};
  }
  ONDOL_VEC Bytes bits(const void* p) {
    uint8_t in[4];
    std::memcpy(in, p, 4);
    const uint8x16_t one = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
    return {{vtstq_u8(vcombine_u8(vdup_n_u8(in[0]), vdup_n_u8(in[1])), one),
             vtstq_u8(vcombine_u8(vdup_n_u8(in[2]), vdup_n_u8(in[3])), one)}};
  }
  ONDOL_VEC void store(void* p, Bytes a) {
    vst1q_u8(static_cast<uint8_t*>(p), a.v[0]);
    vst1q_u8(static_cast<uint8_t*>(p) + 16, a.v[1]);
  }
  ONDOL_VEC Bytes or_bits(Bytes a, const void* p, uint8_t b) {
    return or_(a, and_(bits(p), splat(b)));
  }
  ONDOL_VEC Bytes splat(uint8_t b) { return {{vdupq_n_u8(b), vdupq_n_u8(b)}}; }
  ONDOL_VEC Bytes and_(Bytes a, Bytes b) {
    return {{vandq_u8(a.v[0], b.v[0]), vandq_u8(a.v[1], b.v[1])}};
  }
  ONDOL_VEC Bytes or_(Bytes a, Bytes b) {
    return {{vorrq_u8(a.v[0], b.v[0]), vorrq_u8(a.v[1], b.v[1])}};
  }
  ONDOL_VEC Bytes xor_(Bytes a, Bytes b) {
    return {{veorq_u8(a.v[0], b.v[0]), veorq_u8(a.v[1], b.v[1])}};
  }
  ONDOL_VEC Bytes add(Bytes a, Bytes b) {
    return {{vaddq_u8(a.v[0], b.v[0]), vaddq_u8(a.v[1], b.v[1])}};
  }
  ONDOL_VEC Bytes sub(Bytes a, Bytes b) {
    return {{vsubq_u8(a.v[0], b.v[0]), vsubq_u8(a.v[1], b.v[1])}};
  }
  ONDOL_VEC Bytes abs(Bytes a) {
    return {{vreinterpretq_u8_s8(vabsq_s8(s8(a.v[0]))), vreinterpretq_u8_s8(vabsq_s8(s8(a.v[1])))}};
  }
  template <int N>
  ONDOL_VEC Bytes shr(Bytes a) {
    return {{vshrq_n_u8(a.v[0], N), vshrq_n_u8(a.v[1], N)}};
  }
  template <int N>
  ONDOL_VEC Bytes shl(Bytes a) {
    return {{vshlq_n_u8(a.v[0], N), vshlq_n_u8(a.v[1], N)}};
  }
  ONDOL_VEC Bytes lookup(const void* table16, Bytes index) {
    const uint8x16_t table = load16(table16);
    return {{vqtbl1q_u8(table, index.v[0]), vqtbl1q_u8(table, index.v[1])}};
  }
  ONDOL_VEC Bytes quantized(F32 a, F32 b, F32 c, F32 d) { return {{narrow(a, b), narrow(c, d)}}; }

  ONDOL_VEC I32 izero() { return {{vdupq_n_s32(0), vdupq_n_s32(0)}}; }
  /// Weights of at most 127 are the same signed and unsigned.
  ONDOL_VEC I32 dot_u8(I32 acc, Bytes w, Bytes x) { return dot_i8(acc, w, x); }
  ONDOL_VEC I32 dot_i8(I32 acc, Bytes w, Bytes x) {
    return {
        {vdotq_s32(acc.v[0], s8(w.v[0]), s8(x.v[0])), vdotq_s32(acc.v[1], s8(w.v[1]), s8(x.v[1]))}};
  }
  ONDOL_VEC I32 dot_u8_scaled(I32 acc, Bytes w, Bytes x, Scale s) {
    return dot_i8_scaled(acc, w, x, s);
  }
  ONDOL_VEC I32 dot_i8_scaled(I32 acc, Bytes w, Bytes x, Scale s) {
    const I32 dot = dot_i8(izero(), w, x);
    return {{vmlaq_s32(acc.v[0], dot.v[0], s.v[0]), vmlaq_s32(acc.v[1], dot.v[1], s.v[1])}};
  }
  ONDOL_VEC I32 dot_i16(I32 acc, I16 a, I16 b) {
    return {{dot_i16_half(acc.v[0], a.v[0], b.v[0]), dot_i16_half(acc.v[1], a.v[1], b.v[1])}};
  }
  ONDOL_VEC void istore(int32_t* p, I32 a) {
    vst1q_s32(p, a.v[0]);
    vst1q_s32(p + 4, a.v[1]);
  }

  ONDOL_VEC Scale scale(int s) { return {{vdupq_n_s32(s), vdupq_n_s32(s)}}; }
  ONDOL_VEC Scale scale2(int lo, int hi) { return {{vdupq_n_s32(lo), vdupq_n_s32(hi)}}; }
  ONDOL_VEC Factors factors(uint64_t eight) {
    const int16x8_t wide = vmovl_s8(vreinterpret_s8_u64(vcreate_u64(eight)));
    return {{vmovl_s16(vget_low_s16(wide)), vmovl_high_s16(wide)}};
  }
  ONDOL_VEC Scale pick(Factors f, int lo, int hi) {
    return scale2(f.v[lo / 4][lo % 4], f.v[hi / 4][hi % 4]);
  }
  ONDOL_VEC I16 load_i16(const int16_t* p) { return {{vld1q_s16(p), vld1q_s16(p + 8)}}; }
  ONDOL_VEC I16 i16_from_i8(const void* p) {
    const int8x16_t in = s8(load16(p));
    return {{vmovl_s8(vget_low_s8(in)), vmovl_high_s8(in)}};
  }
  ONDOL_VEC I16 i16_twice_from_i8(const void* p) {
    const int8x8_t in = vld1_s8(static_cast<const int8_t*>(p));
    return {{vmovl_s8(vzip1_s8(in, in)), vmovl_s8(vzip2_s8(in, in))}};
  }

  ONDOL_VEC F32 fzero() { return splat_f(0.0f); }
  ONDOL_VEC F32 splat_f(float a) { return {{vdupq_n_f32(a), vdupq_n_f32(a)}}; }
  ONDOL_VEC F32 fload(const float* p) { return {{vld1q_f32(p), vld1q_f32(p + 4)}}; }
  ONDOL_VEC void fstore(float* p, F32 a) {
    vst1q_f32(p, a.v[0]);
    vst1q_f32(p + 4, a.v[1]);
  }
  ONDOL_VEC F32 fload_n(const float* p, int n) {
    float in[8] = {};
    std::memcpy(in, p, static_cast<size_t>(n) * 4);
    return fload(in);
  }
  ONDOL_VEC void fstore_n(float* p, F32 a, int n) {
    float out[8];
    fstore(out, a);
    std::memcpy(p, out, static_cast<size_t>(n) * 4);
  }
  ONDOL_VEC F32 to_f32(I32 a) { return {{vcvtq_f32_s32(a.v[0]), vcvtq_f32_s32(a.v[1])}}; }
  ONDOL_VEC F32 fadd(F32 a, F32 b) {
    return {{vaddq_f32(a.v[0], b.v[0]), vaddq_f32(a.v[1], b.v[1])}};
  }
  ONDOL_VEC F32 fsub(F32 a, F32 b) {
    return {{vsubq_f32(a.v[0], b.v[0]), vsubq_f32(a.v[1], b.v[1])}};
  }
  ONDOL_VEC F32 fmul(F32 a, F32 b) {
    return {{vmulq_f32(a.v[0], b.v[0]), vmulq_f32(a.v[1], b.v[1])}};
  }
  ONDOL_VEC F32 fdiv(F32 a, F32 b) {
    return {{vdivq_f32(a.v[0], b.v[0]), vdivq_f32(a.v[1], b.v[1])}};
  }
  ONDOL_VEC F32 fma(F32 a, F32 b, F32 c) {
    return {{vfmaq_f32(c.v[0], a.v[0], b.v[0]), vfmaq_f32(c.v[1], a.v[1], b.v[1])}};
  }
  ONDOL_VEC F32 fms(F32 a, F32 b, F32 c) {
    return {{vfmaq_f32(vnegq_f32(c.v[0]), a.v[0], b.v[0]),
             vfmaq_f32(vnegq_f32(c.v[1]), a.v[1], b.v[1])}};
  }
  ONDOL_VEC F32 fmax(F32 a, F32 b) {
    return {{vmaxq_f32(a.v[0], b.v[0]), vmaxq_f32(a.v[1], b.v[1])}};
  }
  ONDOL_VEC F32 fmin(F32 a, F32 b) {
    return {{vminq_f32(a.v[0], b.v[0]), vminq_f32(a.v[1], b.v[1])}};
  }
  ONDOL_VEC F32 fabs(F32 a) { return {{vabsq_f32(a.v[0]), vabsq_f32(a.v[1])}}; }
  ONDOL_VEC F32 round_even(F32 a) { return {{vrndnq_f32(a.v[0]), vrndnq_f32(a.v[1])}}; }
  ONDOL_VEC F32 exp2i(F32 n) { return {{exp2i_half(n.v[0]), exp2i_half(n.v[1])}}; }
  ONDOL_VEC F32 less(F32 a, F32 b) {
    return {{vreinterpretq_f32_u32(vcltq_f32(a.v[0], b.v[0])),
             vreinterpretq_f32_u32(vcltq_f32(a.v[1], b.v[1]))}};
  }
  ONDOL_VEC F32 select(F32 mask, F32 yes, F32 no) {
    return {{vbslq_f32(vreinterpretq_u32_f32(mask.v[0]), yes.v[0], no.v[0]),
             vbslq_f32(vreinterpretq_u32_f32(mask.v[1]), yes.v[1], no.v[1])}};
  }
  ONDOL_VEC F32 copysign(F32 magnitude, F32 sign) {
    const uint32x4_t top = vdupq_n_u32(0x80000000u);
    return {{vbslq_f32(top, sign.v[0], magnitude.v[0]), vbslq_f32(top, sign.v[1], magnitude.v[1])}};
  }
  ONDOL_VEC F32 load_i8(const void* p) {
    const int16x8_t in = vmovl_s8(vld1_s8(static_cast<const int8_t*>(p)));
    return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(in))), vcvtq_f32_s32(vmovl_high_s16(in))}};
  }
  ONDOL_VEC F32 load_f32(const void* p) {
    const Bytes in = load(p);
    return {{vreinterpretq_f32_u8(in.v[0]), vreinterpretq_f32_u8(in.v[1])}};
  }
  ONDOL_VEC F32 load_f16(const void* p) {
    const float16x8_t in = vreinterpretq_f16_u8(load16(p));
    return {{vcvt_f32_f16(vget_low_f16(in)), vcvt_high_f32_f16(in)}};
  }
  ONDOL_VEC void store_f16(void* p, F32 a) {
    vst1q_u8(static_cast<uint8_t*>(p),
             vreinterpretq_u8_f16(vcombine_f16(vcvt_f16_f32(a.v[0]), vcvt_f16_f32(a.v[1]))));
  }
  ONDOL_VEC F32 load_bf16(const void* p) {
    const uint16x8_t in = vreinterpretq_u16_u8(load16(p));
    return {{vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(in), 16)),
             vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(in), 16))}};
  }
  ONDOL_VEC F32 splat_f16(const void* p) { return splat_f(f16(p)); }
  ONDOL_VEC void scale_and_offset(const void* p, F32& scale, F32& offset) {
    scale = splat_f(f16(p));
    const float second = f16(static_cast<const uint8_t*>(p) + 2);
    offset = {{vsetq_lane_f32(second, vdupq_n_f32(0.0f), 1), vdupq_n_f32(0.0f)}};
  }
  ONDOL_VEC float f16(const void* p) {
    __fp16 half = 0;
    std::memcpy(&half, p, 2);
    return static_cast<float>(half);
  }
  ONDOL_VEC float reduce(F32 a) {
    const float32x4_t pairs = vpaddq_f32(a.v[0], a.v[1]);  // a0+a1, a2+a3, a4+a5, a6+a7
    return vaddvq_pair(vpaddq_f32(pairs, pairs));
  }
  ONDOL_VEC F32 reduce8(const F32 (&a)[8]) {
    return {{reduce4(a[0], a[1], a[2], a[3]), reduce4(a[4], a[5], a[6], a[7])}};
  }
  ONDOL_VEC float reduce_max(F32 a) { return vmaxvq_f32(vmaxq_f32(a.v[0], a.v[1])); }

 private:
  ONDOL_VEC uint8x16_t load16(const void* p) { return vld1q_u8(static_cast<const uint8_t*>(p)); }
  ONDOL_VEC int8x16_t s8(uint8x16_t a) { return vreinterpretq_s8_u8(a); }
  ONDOL_VEC uint8x16_t narrow(F32 a, F32 b) {
    const int16x8_t lo =
        vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(a.v[0])), vqmovn_s32(vcvtnq_s32_f32(a.v[1])));
    const int16x8_t hi =
        vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(b.v[0])), vqmovn_s32(vcvtnq_s32_f32(b.v[1])));
    return vreinterpretq_u8_s8(vcombine_s8(vqmovn_s16(lo), vqmovn_s16(hi)));
  }
  ONDOL_VEC int32x4_t dot_i16_half(int32x4_t acc, int16x8_t a, int16x8_t b) {
    const int32x4_t lo = vmull_s16(vget_low_s16(a), vget_low_s16(b));
    return vaddq_s32(acc, vpaddq_s32(lo, vmull_high_s16(a, b)));
  }
  ONDOL_VEC float32x4_t exp2i_half(float32x4_t n) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127)), 23));
  }
  ONDOL_VEC float vaddvq_pair(float32x4_t a) { return vgetq_lane_f32(a, 0) + vgetq_lane_f32(a, 1); }
  ONDOL_VEC float32x4_t reduce4(F32 a, F32 b, F32 c, F32 d) {
    const float32x4_t ab_lo = vpaddq_f32(vpaddq_f32(a.v[0], b.v[0]), vpaddq_f32(c.v[0], d.v[0]));
    const float32x4_t ab_hi = vpaddq_f32(vpaddq_f32(a.v[1], b.v[1]), vpaddq_f32(c.v[1], d.v[1]));
    return vaddq_f32(ab_lo, ab_hi);  // per vector: (v0+v1)+(v2+v3) plus (v4+v5)+(v6+v7)
  }
};

}  // namespace
}  // namespace ondol::simd
