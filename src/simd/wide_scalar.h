// Thread rule: pure functions. See wide.h. The reference.
#pragma once

#include <cstdint>

#include "simd/half.h"
#include "simd/wide.h"

namespace ondol::simd {
namespace {

struct Wide {
  static constexpr int kLanes = 8;
  struct I32 {
    int32_t v[kLanes];
  };
  struct F32 {
    float v[kLanes];
  };
  using Part = I32;
  template <int kMax>
  static constexpr int kSteps = 64;
  static constexpr int kSignedLift = 0;
  static constexpr bool kWholeParts = true;
  static constexpr int kTile = 8;

  template <class F>
  ONDOL_VEC I32 ints(F f) {
    I32 out;
    for (int i = 0; i < kLanes; ++i) out.v[i] = f(i);
    return out;
  }
  template <class F>
  ONDOL_VEC F32 floats(F f) {
    F32 out;
    for (int i = 0; i < kLanes; ++i) out.v[i] = f(i);
    return out;
  }
  ONDOL_VEC uint32_t bits(int32_t a) { return static_cast<uint32_t>(a); }
  ONDOL_VEC int32_t whole(uint32_t a) { return static_cast<int32_t>(a); }
  template <class T>
  ONDOL_VEC T at(const void* p) {
    T value;
    __builtin_memcpy(&value, p, sizeof value);
    return value;
  }

  ONDOL_VEC I32 izero() { return splat32(0); }
  ONDOL_VEC I32 splat32(int32_t a) {
    return ints([&](int) { return a; });
  }
  ONDOL_VEC I32 iload(const int32_t* p) {
    return ints([&](int i) { return p[i]; });
  }
  ONDOL_VEC void istore(int32_t* p, I32 a) {
    for (int i = 0; i < kLanes; ++i) p[i] = a.v[i];
  }
  ONDOL_VEC I32 and_(I32 a, I32 b) {
    return ints([&](int i) { return a.v[i] & b.v[i]; });
  }
  ONDOL_VEC I32 or_(I32 a, I32 b) {
    return ints([&](int i) { return a.v[i] | b.v[i]; });
  }
  ONDOL_VEC I32 xor_(I32 a, I32 b) {
    return ints([&](int i) { return a.v[i] ^ b.v[i]; });
  }
  ONDOL_VEC I32 add32(I32 a, I32 b) {
    return ints([&](int i) { return whole(bits(a.v[i]) + bits(b.v[i])); });
  }
  ONDOL_VEC I32 sub32(I32 a, I32 b) {
    return ints([&](int i) { return whole(bits(a.v[i]) - bits(b.v[i])); });
  }
  ONDOL_VEC I32 mul32(I32 a, I32 b) {
    return ints([&](int i) { return whole(bits(a.v[i]) * bits(b.v[i])); });
  }
  template <int N>
  ONDOL_VEC I32 shl(I32 a) {
    return ints([&](int i) { return whole(bits(a.v[i]) << N); });
  }
  template <int N>
  ONDOL_VEC I32 shr(I32 a) {
    return ints([&](int i) { return whole(bits(a.v[i]) >> N); });
  }
  template <int N>
  ONDOL_VEC I32 sra(I32 a) {
    return ints([&](int i) { return a.v[i] >> N; });
  }
  ONDOL_VEC I32 lookup(const void* table16, I32 a) {
    const auto* table = static_cast<const uint8_t*>(table16);
    return ints([&](int i) {
      const uint32_t b = bits(a.v[i]);
      return whole(table[b & 15] | uint32_t{table[(b >> 8) & 15]} << 8 |
                   uint32_t{table[(b >> 16) & 15]} << 16 | uint32_t{table[(b >> 24) & 15]} << 24);
    });
  }
  ONDOL_VEC void load_rows(const uint8_t* p, size_t stride, I32 (&out)[4]) {
    for (int t = 0; t < 4; ++t) out[t] = load_u32(p + 4 * t, stride);
  }
  ONDOL_VEC I32 load_u32(const uint8_t* p, size_t stride) {
    return ints([&](int i) { return at<int32_t>(p + static_cast<size_t>(i) * stride); });
  }
  ONDOL_VEC I32 load_u16(const uint8_t* p, size_t stride) {
    return ints([&](int i) { return at<uint16_t>(p + static_cast<size_t>(i) * stride); });
  }
  ONDOL_VEC I32 load_u8(const uint8_t* p, size_t stride) {
    return ints([&](int i) { return p[static_cast<size_t>(i) * stride]; });
  }

  ONDOL_VEC F32 fzero() { return splat_f(0.0f); }
  ONDOL_VEC F32 splat_f(float a) {
    return floats([&](int) { return a; });
  }
  ONDOL_VEC F32 fload(const float* p) { return fload_n(p, kLanes); }
  ONDOL_VEC void fstore(float* p, F32 a) { fstore_n(p, a, kLanes); }
  ONDOL_VEC F32 fload_n(const float* p, int n) {
    return floats([&](int i) { return i < n ? p[i] : 0.0f; });
  }
  ONDOL_VEC void fstore_n(float* p, F32 a, int n) {
    for (int i = 0; i < n; ++i) p[i] = a.v[i];
  }
  ONDOL_VEC F32 as_f32(I32 a) {
    return floats([&](int i) { return at<float>(&a.v[i]); });
  }
  ONDOL_VEC F32 to_f32(I32 a) {
    return floats([&](int i) { return static_cast<float>(a.v[i]); });
  }
  ONDOL_VEC F32 halves(I32 a) {
    return floats([&](int i) { return half_to_float(static_cast<uint16_t>(a.v[i])); });
  }
  ONDOL_VEC F32 high_halves(I32 a) { return halves(shr<16>(a)); }
  ONDOL_VEC F32 fadd(F32 a, F32 b) {
    return floats([&](int i) { return a.v[i] + b.v[i]; });
  }
  ONDOL_VEC F32 fsub(F32 a, F32 b) {
    return floats([&](int i) { return a.v[i] - b.v[i]; });
  }
  ONDOL_VEC F32 fmul(F32 a, F32 b) {
    return floats([&](int i) { return a.v[i] * b.v[i]; });
  }
  ONDOL_VEC F32 fdiv(F32 a, F32 b) {
    return floats([&](int i) { return a.v[i] / b.v[i]; });
  }
  ONDOL_VEC F32 fmax(F32 a, F32 b) {
    return floats([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  ONDOL_VEC F32 fma(F32 a, F32 b, F32 c) {
    return floats([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
  }

  template <int kMax>
  ONDOL_VEC Part part_zero() {
    return izero();
  }
  template <int kMax>
  ONDOL_VEC Part part_add(Part part, I32 codes, const int8_t* x) {
    return ints([&](int i) {
      int32_t sum = part.v[i];
      for (int b = 0; b < 4; ++b) {
        const auto byte = static_cast<uint8_t>(bits(codes.v[i]) >> (8 * b));
        sum += (kMax == kSigned ? static_cast<int8_t>(byte) : int{byte}) * x[b];
      }
      return sum;
    });
  }
  template <int kMax>
  ONDOL_VEC I32 widen(I32 acc, Part part) {
    return add32(acc, part);
  }
  template <int kMax>
  ONDOL_VEC I32 widen_scaled(I32 acc, Part part, I32 factor) {
    return add32(acc, mul32(part, factor));
  }
  ONDOL_VEC I32 scale(I32 a) { return a; }
  ONDOL_VEC I32 signed_codes(I32 a) { return a; }
  ONDOL_VEC I32 dot_i16(I32 acc, I32 pairs, const int16_t* x) {
    return ints([&](int i) {
      const uint32_t b = bits(pairs.v[i]);
      return acc.v[i] + static_cast<int16_t>(b & 0xffff) * x[0] +
             static_cast<int16_t>(b >> 16) * x[1];
    });
  }
};

}  // namespace
}  // namespace ondol::simd
