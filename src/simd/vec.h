// Thread rule: pure functions.
//
// The vector vocabulary that kernels are written in. One header per kind of machine defines a
// struct `Vec` with the same static functions: vec_scalar.h (the reference), vec_x86.h (AVX2,
// AVX-VNNI, AVX-512, AVX-512 VNNI, by the compiler's own macros), vec_neon.h. A leaf file includes
// exactly one of them and instantiates the shared templates over it.
//
// `Vec` lies in an unnamed namespace, so everything instantiated over it has internal linkage: the
// linker can never keep one leaf's code for another. For the same reason these headers call nothing
// of std:: that is not a builtin.
//
// Shapes, the same on every machine: Bytes = 32 bytes, I32 = 8 int32, F32 = 8 floats, I16 = 16
// int16, Scale = a factor for each int32 lane of a dot product. Lane j of a dot product sums the
// products of bytes 4j .. 4j+3.
//
//   Bytes   load(p) 32 bytes · join(lo, hi) two times 16 · twice(p) the same 16 in both halves
//           nibbles(p) 16 bytes: low nibbles in bytes 0..15, high nibbles in 16..31
//           bits(p) 4 bytes: byte i is 0xff where bit i is set, else 0
//           or_bits(a, p, b): a | b where bit i of 4 bytes is set; a and b have no bit in common
//           splat(b) · store(p, a) · and_, or_, xor_, add, sub, abs (wrapping bytes) · shr<N>,
//           shl<N> per byte, zeros shifted in lookup(table16, indices 0..15) quantized(a, b, c, d)
//           4 F32 rounded to nearest even, within -127..127
//   I32     izero · dot_u8(acc, w, x): w unsigned 0..127, x signed -127..127 (two products fit in
//   16 bits)
//           dot_i8(acc, w, x): w signed -128..127, x signed -127..127
//           dot_u8_scaled / dot_i8_scaled(acc, w, x, s): acc + s * dot
//           dot_i16(acc, a, b): lane j adds a[2j] b[2j] + a[2j+1] b[2j+1] · istore(p, i)
//   Factors factors(u64): eight int8 of a register as factors · Scale pick(factors, lo, hi): factor
//           lo for bytes 0..15, hi for 16..31; lo and hi are constants once loops are unrolled
//   Scale   scale(s) · scale2(lo, hi): bytes 0..15 and 16..31 have factors of their own; s fits in
//   int16 I16     load_i16(p) · i16_from_i8(p) 16 int8 · i16_twice_from_i8(p) 8 int8, each in two
//   neighbouring lanes F32     fzero, splat_f, fload, fstore, fload_n, fstore_n (the first n lanes;
//   others read as 0) · to_f32(I32)
//           fadd, fsub, fmul, fdiv, fma(a, b, c) = a b + c, fmax, fmin (NaN in the second argument
//           is kept), fabs round_even, exp2i(n): 2^n of whole n in -126..127 · less(a, b) mask,
//           select(mask, yes, no) copysign(magnitude, sign) · load_f32, load_f16, load_bf16,
//           store_f16: 8 values at any address
//   F32     splat_f16(p) one half in all lanes ·
//           scale_and_offset(p, scale, offset) two halves: the first in all lanes, the second in
//           one with zeros beside it · fms(a, b, c) = a b - c
//   float   f16(p) one half · reduce(a) = ((a0+a1)+(a2+a3)) + ((a4+a5)+(a6+a7)) · reduce_max(a)
//   F32     reduce8(a): lane i = reduce(a[i])
#pragma once

// Forcing everything into one function takes compilers many minutes where there is much of it: with
// sanitizers, and in the reference (ONDOL_PLAIN_CALLS), which need not be fast.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(undefined_behavior_sanitizer)
#define ONDOL_PLAIN_CALLS
#endif
#endif
#ifdef ONDOL_PLAIN_CALLS
#define ONDOL_VEC static inline
#define ONDOL_VEC_MEMBER inline
#define ONDOL_VEC_LAMBDA
#else
#define ONDOL_VEC [[gnu::always_inline]] static inline
#define ONDOL_VEC_MEMBER [[gnu::always_inline]] inline
#define ONDOL_VEC_LAMBDA __attribute__((always_inline))
#endif
