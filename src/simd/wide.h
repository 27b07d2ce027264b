// Thread rule: pure functions.
//
// The second vector vocabulary, for kernels whose lanes are neighbours: rows of a weight matrix,
// keys of a page. `Wide` has as many lanes as the machine's registers hold: 16 with AVX-512, 8 with
// AVX2, 4 with NEON, 8 in the reference (wide_scalar.h). Like `Vec` (vec.h) it lies in an unnamed
// namespace and calls nothing of std:: that is not a builtin.
//
//   kLanes · kTile: vectors that sums may take, of the registers there are · I32: kLanes int32,
//   also seen as four bytes a lane · F32: kLanes floats
//
//   I32   izero · splat32(i) · iload(p) at any address · istore(p, a) · and_, or_, xor_ · add32,
//         sub32, mul32 (low half) · shl<N>, shr<N>, sra<N> per lane · lookup(table16, a): each
//         byte 0..15 through a table · as_f32(a): the same bits
//         load_rows(p, stride, out[4]): lane r of out[t] = bytes 4t .. 4t+3 of p + r * stride
//         load_u32(p, stride), load_u16, load_u8: lane r = the number at p + r * stride
//   F32   fzero · splat_f(x) · fload, fstore · fload_n, fstore_n: the first n lanes · to_f32(I32)
//         halves(a), high_halves(a): the lower, the upper binary16 of each lane · fadd, fsub, fmul,
//         fdiv, fma(a, b, c) = a b + c · fmax, fmin: where one is NaN, the second · fabs, copysign
//         · round_even, to_i32 of what an int32 holds (nearest, ties to even) · less(a, b) a mask
//         of a type of its own, select(mask, yes, no) exp2i(n) = 2^n, times_exp2(a, n) = a 2^n of
//         whole n, result and a normal numbers load_f16(p), load_i8(p): kLanes neighbours at any
//         address
//   float reduce(a), reduce_max(a): of all lanes, in an order of the machine's own
//
// Products of codes (unsigned bytes up to kMax) and activations (int8 within -127..127), four
// neighbours k of a row at a time, the same four activations for all rows:
//
//   Part         a sum on its way; int32 lanes like I32 where kWholeParts, else narrower
//   part_zero<kMax>() · part_add<kMax>(part, codes, x) adds four products to each lane
//   kSteps<kMax> how many part_add a part can take
//   widen<kMax>(acc, part) = acc + part · widen_scaled<kMax>(acc, part, scale) = acc + scale * part
//   scale(a): int32 factors within int16 in the form that widen_scaled wants
//   kMax = kSigned: codes are int8 that went through signed_codes(), which may lift them by
//   kSignedLift
//   dot_i16(acc, pairs, x): acc + pairs[0] * x[0] + pairs[1] * x[1], int16 each, wrapping
//   even_bytes(a): the signed bytes 0 and 2 of each lane as such a pair · odd_bytes(a): 1 and 3
#pragma once

#include "simd/vec.h"

namespace ondol::simd {

/// In place of a largest code: the codes are signed bytes, -127 .. 127 or -128 .. 127.
inline constexpr int kSigned = 255;

}  // namespace ondol::simd
