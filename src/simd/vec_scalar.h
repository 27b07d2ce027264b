// Thread rule: pure functions. See vec.h.
#pragma once

#include <cstdint>
#include <cstring>

#include "simd/half.h"
#include "simd/vec.h"

namespace ondol::simd {
namespace {

/// Plain C++: the reference that every other instruction set is compared with.
struct Vec {
  struct Bytes {
    uint8_t v[32];
  };
  struct I16 {
    int16_t v[16];
  };
  struct I32 {
    int32_t v[8];
  };
  struct F32 {
    float v[8];
  };
  using Scale = I32;
  struct Factors {
    int32_t v[8];
  };

  ONDOL_VEC Bytes load(const void* p) {
    Bytes r;
    std::memcpy(r.v, p, 32);
    return r;
  }
  ONDOL_VEC Bytes join(const void* lo, const void* hi) {
    Bytes r;
    std::memcpy(r.v, lo, 16);
    std::memcpy(r.v + 16, hi, 16);
    return r;
  }
  ONDOL_VEC Bytes twice(const void* p) { return join(p, p); }
  ONDOL_VEC Bytes nibbles(const void* p) {
    Bytes r = twice(p);
    for (int i = 0; i < 16; ++i) r.v[i] &= 15;
    for (int i = 16; i < 32; ++i) r.v[i] >>= 4;
    return r;
  }
  ONDOL_VEC Bytes bits(const void* p) {
    uint8_t in[4];
    std::memcpy(in, p, 4);
    Bytes r;
    for (int i = 0; i < 32; ++i) r.v[i] = (in[i / 8] >> (i % 8)) & 1 ? 0xff : 0;
    return r;
  }
  ONDOL_VEC void store(void* p, Bytes a) { std::memcpy(p, a.v, 32); }
  ONDOL_VEC Bytes or_bits(Bytes a, const void* p, uint8_t b) {
    return or_(a, and_(bits(p), splat(b)));
  }
  ONDOL_VEC Bytes splat(uint8_t b) {
    return map([b](int) { return static_cast<int>(b); });
  }
  ONDOL_VEC Bytes and_(Bytes a, Bytes b) {
    return map([&](int i) { return a.v[i] & b.v[i]; });
  }
  ONDOL_VEC Bytes or_(Bytes a, Bytes b) {
    return map([&](int i) { return a.v[i] | b.v[i]; });
  }
  ONDOL_VEC Bytes xor_(Bytes a, Bytes b) {
    return map([&](int i) { return a.v[i] ^ b.v[i]; });
  }
  ONDOL_VEC Bytes add(Bytes a, Bytes b) {
    return map([&](int i) { return a.v[i] + b.v[i]; });
  }
  ONDOL_VEC Bytes sub(Bytes a, Bytes b) {
    return map([&](int i) { return a.v[i] - b.v[i]; });
  }
  ONDOL_VEC Bytes abs(Bytes a) {
    return map([&](int i) { return a.v[i] < 128 ? a.v[i] : 256 - a.v[i]; });
  }
  template <int N>
  ONDOL_VEC Bytes shr(Bytes a) {
    return map([&](int i) { return a.v[i] >> N; });
  }
  template <int N>
  ONDOL_VEC Bytes shl(Bytes a) {
    return map([&](int i) { return a.v[i] << N; });
  }
  ONDOL_VEC Bytes lookup(const void* table16, Bytes index) {
    uint8_t table[16];
    std::memcpy(table, table16, 16);
    return map([&](int i) { return table[index.v[i] & 15]; });
  }
  ONDOL_VEC Bytes quantized(F32 a, F32 b, F32 c, F32 d) {
    const F32 in[4] = {a, b, c, d};
    return map([&](int i) {
      const float value = in[i / 8].v[i % 8];
      if (!(value > -127.0f)) return -127;  // NaN too
      return value < 127.0f ? static_cast<int>(__builtin_rintf(value)) : 127;
    });
  }

  ONDOL_VEC I32 izero() { return {}; }
  ONDOL_VEC I32 dot_u8(I32 acc, Bytes w, Bytes x) {
    for (int i = 0; i < 32; ++i) acc.v[i / 4] += w.v[i] * static_cast<int8_t>(x.v[i]);
    return acc;
  }
  ONDOL_VEC I32 dot_i8(I32 acc, Bytes w, Bytes x) {
    for (int i = 0; i < 32; ++i) {
      acc.v[i / 4] += static_cast<int8_t>(w.v[i]) * static_cast<int8_t>(x.v[i]);
    }
    return acc;
  }
  ONDOL_VEC I32 dot_u8_scaled(I32 acc, Bytes w, Bytes x, Scale s) {
    const I32 dot = dot_u8(izero(), w, x);
    for (int i = 0; i < 8; ++i) acc.v[i] += s.v[i] * dot.v[i];
    return acc;
  }
  ONDOL_VEC I32 dot_i8_scaled(I32 acc, Bytes w, Bytes x, Scale s) {
    const I32 dot = dot_i8(izero(), w, x);
    for (int i = 0; i < 8; ++i) acc.v[i] += s.v[i] * dot.v[i];
    return acc;
  }
  ONDOL_VEC I32 dot_i16(I32 acc, I16 a, I16 b) {
    for (int i = 0; i < 16; ++i) acc.v[i / 2] += a.v[i] * b.v[i];
    return acc;
  }
  ONDOL_VEC void istore(int32_t* p, I32 a) { std::memcpy(p, a.v, 32); }

  ONDOL_VEC Scale scale(int s) { return scale2(s, s); }
  ONDOL_VEC Scale scale2(int lo, int hi) { return {{lo, lo, lo, lo, hi, hi, hi, hi}}; }
  ONDOL_VEC Factors factors(uint64_t eight) {
    Factors r;
    for (int i = 0; i < 8; ++i) r.v[i] = static_cast<int8_t>(eight >> (8 * i));
    return r;
  }
  ONDOL_VEC Scale pick(Factors f, int lo, int hi) { return scale2(f.v[lo], f.v[hi]); }
  ONDOL_VEC I16 load_i16(const int16_t* p) {
    I16 r;
    std::memcpy(r.v, p, 32);
    return r;
  }
  ONDOL_VEC I16 i16_from_i8(const void* p) {
    int8_t in[16];
    std::memcpy(in, p, 16);
    I16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = in[i];
    return r;
  }
  ONDOL_VEC I16 i16_twice_from_i8(const void* p) {
    int8_t in[8];
    std::memcpy(in, p, 8);
    I16 r;
    for (int i = 0; i < 16; ++i) r.v[i] = in[i / 2];
    return r;
  }

  ONDOL_VEC F32 fzero() { return {}; }
  ONDOL_VEC F32 splat_f(float a) { return {{a, a, a, a, a, a, a, a}}; }
  ONDOL_VEC F32 fload(const float* p) { return fload_n(p, 8); }
  ONDOL_VEC void fstore(float* p, F32 a) { std::memcpy(p, a.v, 32); }
  ONDOL_VEC F32 fload_n(const float* p, int n) {
    F32 r{};
    std::memcpy(r.v, p, static_cast<size_t>(n) * 4);
    return r;
  }
  ONDOL_VEC void fstore_n(float* p, F32 a, int n) {
    std::memcpy(p, a.v, static_cast<size_t>(n) * 4);
  }
  ONDOL_VEC F32 to_f32(I32 a) {
    return fmap([&](int i) { return static_cast<float>(a.v[i]); });
  }
  ONDOL_VEC F32 fadd(F32 a, F32 b) {
    return fmap([&](int i) { return a.v[i] + b.v[i]; });
  }
  ONDOL_VEC F32 fsub(F32 a, F32 b) {
    return fmap([&](int i) { return a.v[i] - b.v[i]; });
  }
  ONDOL_VEC F32 fmul(F32 a, F32 b) {
    return fmap([&](int i) { return a.v[i] * b.v[i]; });
  }
  ONDOL_VEC F32 fdiv(F32 a, F32 b) {
    return fmap([&](int i) { return a.v[i] / b.v[i]; });
  }
  /// Not fused here: machines without the instruction would spend a function call on each lane.
  ONDOL_VEC F32 fma(F32 a, F32 b, F32 c) {
    return fmap([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
  }
  ONDOL_VEC F32 fms(F32 a, F32 b, F32 c) {
    return fmap([&](int i) { return a.v[i] * b.v[i] - c.v[i]; });
  }
  ONDOL_VEC F32 fmax(F32 a, F32 b) {
    return fmap([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  ONDOL_VEC F32 fmin(F32 a, F32 b) {
    return fmap([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  ONDOL_VEC F32 fabs(F32 a) {
    return fmap([&](int i) { return __builtin_fabsf(a.v[i]); });
  }
  ONDOL_VEC F32 round_even(F32 a) {
    return fmap([&](int i) { return __builtin_rintf(a.v[i]); });
  }
  ONDOL_VEC F32 exp2i(F32 n) {
    return fmap([&](int i) {
      const int exponent = n.v[i] >= -126.0f && n.v[i] <= 127.0f ? static_cast<int>(n.v[i]) : 0;
      return __builtin_bit_cast(float, (exponent + 127) << 23);
    });
  }
  ONDOL_VEC F32 less(F32 a, F32 b) {
    return fmap([&](int i) { return a.v[i] < b.v[i] ? 1.0f : 0.0f; });
  }
  ONDOL_VEC F32 select(F32 mask, F32 yes, F32 no) {
    return fmap([&](int i) { return mask.v[i] != 0.0f ? yes.v[i] : no.v[i]; });
  }
  ONDOL_VEC F32 copysign(F32 magnitude, F32 sign) {
    return fmap([&](int i) { return __builtin_copysignf(magnitude.v[i], sign.v[i]); });
  }
  ONDOL_VEC F32 load_i8(const void* p) {
    int8_t in[8];
    std::memcpy(in, p, 8);
    return fmap([&](int i) { return static_cast<float>(in[i]); });
  }
  ONDOL_VEC F32 load_f32(const void* p) {
    F32 r;
    std::memcpy(r.v, p, 32);
    return r;
  }
  ONDOL_VEC F32 load_f16(const void* p) {
    uint16_t in[8];
    std::memcpy(in, p, 16);
    return fmap([&](int i) { return half_to_float(in[i]); });
  }
  ONDOL_VEC void store_f16(void* p, F32 a) {
    uint16_t out[8];
    for (int i = 0; i < 8; ++i) out[i] = float_to_half(a.v[i]);
    std::memcpy(p, out, 16);
  }
  ONDOL_VEC F32 load_bf16(const void* p) {
    uint16_t in[8];
    std::memcpy(in, p, 16);
    return fmap(
        [&](int i) { return __builtin_bit_cast(float, static_cast<uint32_t>(in[i]) << 16); });
  }
  ONDOL_VEC F32 splat_f16(const void* p) { return splat_f(f16(p)); }
  ONDOL_VEC void scale_and_offset(const void* p, F32& scale, F32& offset) {
    uint16_t halves[2];
    std::memcpy(halves, p, 4);
    scale = splat_f(half_to_float(halves[0]));
    offset = {{0.0f, half_to_float(halves[1])}};
  }
  ONDOL_VEC float f16(const void* p) {
    uint16_t half = 0;
    std::memcpy(&half, p, 2);
    return half_to_float(half);
  }
  ONDOL_VEC float reduce(F32 a) {
    return ((a.v[0] + a.v[1]) + (a.v[2] + a.v[3])) + ((a.v[4] + a.v[5]) + (a.v[6] + a.v[7]));
  }
  ONDOL_VEC F32 reduce8(const F32 (&a)[8]) {
    return fmap([&](int i) { return reduce(a[i]); });
  }
  ONDOL_VEC float reduce_max(F32 a) {
    float m = a.v[0];
    for (int i = 1; i < 8; ++i) m = a.v[i] > m ? a.v[i] : m;
    return m;
  }

 private:
  template <class F>
  ONDOL_VEC Bytes map(F f) {
    Bytes r;
    for (int i = 0; i < 32; ++i) r.v[i] = static_cast<uint8_t>(f(i));
    return r;
  }
  template <class F>
  ONDOL_VEC F32 fmap(F f) {
    F32 r;
    for (int i = 0; i < 8; ++i) r.v[i] = f(i);
    return r;
  }
};

}  // namespace
}  // namespace ondol::simd
