// Thread rule: pure functions. See wide.h. The reference.
#pragma once

#include <cstddef>
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
  ONDOL_VEC float nearest(float a) {
    const float size = __builtin_fabsf(a);
    return size < 0x1p23f ? __builtin_copysignf(size + 0x1p23f - 0x1p23f, a) : a;
  }
  /// The low bytes of two numbers as two int16.
  ONDOL_VEC int32_t pair_of(uint32_t low, uint32_t high) {
    const auto wide = [](uint32_t b) {
      return static_cast<uint16_t>(static_cast<int8_t>(b & 0xff));
    };
    return whole(wide(low) | uint32_t{wide(high)} << 16);
  }
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
  ONDOL_VEC I32 iload(const void* p) { return load_u32(static_cast<const uint8_t*>(p), 4); }
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
  ONDOL_VEC F32 fmin(F32 a, F32 b) {
    return floats([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  ONDOL_VEC F32 fabs(F32 a) {
    return floats([&](int i) { return __builtin_fabsf(a.v[i]); });
  }
  ONDOL_VEC F32 round_even(F32 a) {
    return floats([&](int i) { return nearest(a.v[i]); });
  }
  ONDOL_VEC I32 to_i32(F32 a) {
    return ints([&](int i) {
      const float n = nearest(a.v[i]);
      return n >= -0x1p31f && n < 0x1p31f ? static_cast<int32_t>(n) : INT32_MIN;
    });
  }
  ONDOL_VEC F32 times_exp2(F32 a, F32 n) {
    const I32 exponents = to_i32(n);
    return floats(
        [&](int i) { return a.v[i] * __builtin_bit_cast(float, (exponents.v[i] + 127) << 23); });
  }
  ONDOL_VEC F32 exp2i(F32 n) { return times_exp2(splat_f(1.0f), n); }
  ONDOL_VEC I32 less(F32 a, F32 b) {
    return ints([&](int i) { return a.v[i] < b.v[i] ? -1 : 0; });
  }
  ONDOL_VEC F32 select(I32 mask, F32 yes, F32 no) {
    return floats([&](int i) { return mask.v[i] != 0 ? yes.v[i] : no.v[i]; });
  }
  ONDOL_VEC F32 copysign(F32 magnitude, F32 sign) {
    return floats([&](int i) { return __builtin_copysignf(magnitude.v[i], sign.v[i]); });
  }
  ONDOL_VEC float reduce(F32 a) {
    return ((a.v[0] + a.v[1]) + (a.v[2] + a.v[3])) + ((a.v[4] + a.v[5]) + (a.v[6] + a.v[7]));
  }
  ONDOL_VEC float reduce_max(F32 a) {
    float m = a.v[0];
    for (int i = 1; i < kLanes; ++i) m = a.v[i] > m ? a.v[i] : m;
    return m;
  }
  ONDOL_VEC F32 load_f16(const void* p) {
    const auto* bytes = static_cast<const uint8_t*>(p);
    return floats([&](int i) { return half_to_float(at<uint16_t>(bytes + 2 * i)); });
  }
  ONDOL_VEC F32 load_i8(const void* p) {
    const auto* bytes = static_cast<const int8_t*>(p);
    return floats([&](int i) { return static_cast<float>(bytes[i]); });
  }
  ONDOL_VEC I32 even_bytes(I32 a) {
    return ints([&](int i) { return pair_of(bits(a.v[i]), bits(a.v[i]) >> 16); });
  }
  ONDOL_VEC I32 odd_bytes(I32 a) {
    return ints([&](int i) { return pair_of(bits(a.v[i]) >> 8, bits(a.v[i]) >> 24); });
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
      return whole(bits(acc.v[i]) + bits(static_cast<int16_t>(b & 0xffff) * x[0]) +
                   bits(static_cast<int16_t>(b >> 16) * x[1]));
    });
  }
};

}  // namespace
}  // namespace ondol::simd
