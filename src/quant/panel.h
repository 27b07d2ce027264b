// Thread rule: templates over pure functions.
//
// How a quantised format comes to the matrix product: as panels, blocks of V::kLanes neighbouring
// rows side by side, lane r for row r. A format's header (q4_1.h) has, beside its block, one
// template
//
//   template <class V> struct PanelQ4_1 {
//     using Block = BlockQ4_1;       // bytes only, so that it may lie at any address
//     using Out = Panel32<V>;        // or Panel256<V>
//     static constexpr int kMax = 15;  // the largest code, or simd::kSigned
//     ...
//     template <class In>  // Source or PackedSource
//     static void unpack(const In& in, Out& out);  // one block of each row
//   };
//
// over the vocabulary V (simd/wide.h), and a line in quant/panels.h. What a panel means is the same
// for all formats, so that one product (kernels/leaf_matmul.inc.h) serves them all.
//
// Bit-exactness rests on two rules. Within a block all products are summed in integers, exactly, so
// their order does not matter; across blocks a row's lane changes by the same operations in the
// same order, whatever else is computed beside it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd/wide.h"

namespace ondol::quant {

/// How the activations come to a format's product.
enum class ActKind : uint8_t {
  kFloat,      ///< as they are: the weights are floats of some width
  kBlocks32,   ///< int8, one scale per 32 values: formats with blocks of 32
  kBlocks256,  ///< int8, one scale per 256 values: formats with blocks of 256
};

/// A block of kLanes rows that lie `stride` bytes apart, as in a file, and the place that will be
/// needed some blocks later: memory is asked for its cache lines in small portions between the
/// loads.
template <class V>
struct Source {
  const uint8_t* first;
  size_t stride;
  const uint8_t* ahead;

  /// Sixteen bytes of each row.
  ONDOL_VEC_MEMBER void load(size_t offset, typename V::I32 (&out)[4]) const {
    V::load_rows(first + offset, stride, out);
  }
  ONDOL_VEC_MEMBER typename V::I32 u32(size_t offset) const {
    return V::load_u32(first + offset, stride);
  }
  /// A binary16 of each row.
  ONDOL_VEC_MEMBER typename V::F32 half(size_t offset) const {
    return V::halves(V::load_u16(first + offset, stride));
  }
  ONDOL_VEC_MEMBER uint8_t byte(size_t offset, int row) const {
    return first[offset + static_cast<size_t>(row) * stride];
  }
  /// Asks for a cache line of a quarter of the rows; four such offsets in a row, 16 bytes apart,
  /// ask for all.
  ONDOL_VEC_MEMBER void fetch(size_t offset) const {
    constexpr size_t kRows = V::kLanes / 4;
    const uint8_t* line = ahead + offset / 64 * 64 + offset / 16 % 4 * kRows * stride;
    for (size_t r = 0; r < kRows; ++r) __builtin_prefetch(line + r * stride);
  }
  ONDOL_VEC_MEMBER void fetch_all() const {
    for (size_t r = 0; r < V::kLanes; ++r) __builtin_prefetch(ahead + r * stride);
  }
};

/// The same in packed weights, where a block of kLanes rows is one piece in the order in which
/// registers want it: four bytes of each row, the next four of each, and so on. kOdd bytes that are
/// left over stand before them (blocks of 32 values begin with their odd field) or behind (blocks
/// of 256 end with it). Either way what stands at `offset` of the rows begins at kLanes * offset.
template <class V, size_t kBytes, bool kOddFirst>
struct PackedSource {
  static constexpr size_t kOdd = kBytes % 4;
  const uint8_t* first;
  const uint8_t* ahead;

  /// Loads ask for the memory of what will be loaded in the same way some blocks later.
  ONDOL_VEC_MEMBER void load(size_t offset, typename V::I32 (&out)[4]) const {
    for (size_t t = 0; t < 4; ++t) out[t] = u32(offset + 4 * t);
  }
  ONDOL_VEC_MEMBER typename V::I32 u32(size_t offset) const {
    constexpr size_t kLoadsPerLine = 16 / V::kLanes;
    if (offset / 4 % kLoadsPerLine == 0) __builtin_prefetch(ahead + V::kLanes * offset);
    return V::iload(first + V::kLanes * offset);
  }
  ONDOL_VEC_MEMBER typename V::F32 half(size_t offset) const {
    static_assert(kOdd == 2);
    return V::load_f16(first + V::kLanes * offset);
  }
  ONDOL_VEC_MEMBER uint8_t byte(size_t offset, int row) const {
    return first[V::kLanes * offset + kOdd * static_cast<size_t>(row)];
  }
  ONDOL_VEC_MEMBER void fetch(size_t) const {}

  /// Puts a block of kLanes rows that lie `stride` bytes apart into this order.
  static void pack(const uint8_t* rows, size_t stride, uint8_t* packed) {
    const auto put = [&](size_t offset, size_t width) {
      for (size_t r = 0; r < V::kLanes; ++r) {
        __builtin_memcpy(packed + V::kLanes * offset + r * width, rows + r * stride + offset,
                         width);
      }
    };
    constexpr size_t kStart = kOddFirst ? kOdd : 0;
    for (size_t offset = kStart; offset + 4 <= kBytes; offset += 4) put(offset, 4);
    if constexpr (kOdd != 0) put(kOddFirst ? 0 : kBytes - kOdd, kOdd);
  }
};

/// 32 values of each row: w = d * (code - kLift), or with kOffset d * code + m. Byte b of codes[t]
/// is the code of value 4 t + b.
template <class V>
struct Panel32 {
  typename V::I32 codes[8];
  typename V::F32 d;
  typename V::F32 m;  ///< kOffset only
};

/// What Panel256::pairs are for: they are multiplied by the sums of each 16 activations, pair p by
/// sums 2 p and 2 p + 1.
enum class Pairs : uint8_t {
  kNone,
  kLift,  ///< what the codes were lifted by, negative, times the scale: comes to the codes' sum
  kMins,  ///< minima: their sum times dmin is taken from the result
};

/// 256 values of each row: w = d * scales[i / kSub] * code, and what the pairs say.
template <class V>
struct Panel256 {
  typename V::I32 codes[64];
  typename V::I32 scales[16];  ///< the first 256 / kSub, through V::scale
  typename V::I32 pairs[8];    ///< two int16 a lane
  typename V::F32 d;
  typename V::F32 dmin;  ///< kMins only
};

/// Sixteen bytes of each row as N floats.
template <class V, int N>
struct PanelFloats {
  typename V::F32 values[N];
};

template <int N>
struct Index {
  static constexpr int value = N;
};

/// f(Index<0>), ..., f(Index<N - 1>).
template <int N, class F>
ONDOL_VEC void unrolled(F f) {
  if constexpr (N > 0) {
    unrolled<N - 1>(f);
    f(Index<N - 1>{});
  }
}

/// (byte >> kShift) & kMask of each byte.
template <class V, int kShift, int kMask>
ONDOL_VEC typename V::I32 bits(typename V::I32 a) {
  const auto mask = V::splat32(kMask * 0x01010101);
  if constexpr (kShift == 0) return V::and_(a, mask);
  return V::and_(V::template shr<kShift>(a), mask);
}

/// Byte N of each lane.
template <class V, int N>
ONDOL_VEC typename V::I32 byte(typename V::I32 a) {
  return V::and_(V::template shr<8 * N>(a), V::splat32(255));
}
template <class V, int N>
ONDOL_VEC typename V::I32 signed_byte(typename V::I32 a) {
  return V::template sra<24>(V::template shl<24 - 8 * N>(a));
}

/// Two numbers as the int16 of a pair.
template <class V>
ONDOL_VEC typename V::I32 pair_of(typename V::I32 first, typename V::I32 second) {
  return V::or_(V::and_(first, V::splat32(0xffff)), V::template shl<16>(second));
}
/// The pair that takes kLift times the two scales out of a sum.
template <class V, int kLift>
ONDOL_VEC typename V::I32 lifted_pair(typename V::I32 first, typename V::I32 second) {
  const auto factor = V::splat32(-kLift);
  return pair_of<V>(V::mul32(first, factor), V::mul32(second, factor));
}

/// 4 N bytes of each row.
template <class V, int N, class In>
ONDOL_VEC void raw_bytes(const In& in, size_t offset, typename V::I32* out) {
#pragma GCC unroll 16
  for (int i = 0; i < N; i += 4) {
    typename V::I32 four[4];
    in.fetch(offset + static_cast<size_t>(4 * i));
    in.load(offset + static_cast<size_t>(4 * i), four);
    for (int t = 0; t < 4; ++t) out[i + t] = four[t];
  }
}
template <class V, int N, class In>
ONDOL_VEC void signed_bytes(const In& in, size_t offset, typename V::I32* out) {
  raw_bytes<V, N>(in, offset, out);
  for (int i = 0; i < N; ++i) out[i] = V::signed_codes(out[i]);
}

/// Sixteen bytes of each row as 32 codes: the low nibbles, then the high ones.
template <class V, class In>
ONDOL_VEC void nibbles(const In& in, size_t offset, typename V::I32* codes) {
  typename V::I32 packed[4];
  in.load(offset, packed);
#pragma GCC unroll 4
  for (int t = 0; t < 4; ++t) {
    codes[t] = bits<V, 0, 15>(packed[t]);
    codes[4 + t] = bits<V, 4, 15>(packed[t]);
  }
}

/// Adds 16 to code i of 32 where bit i of `high` is set.
template <class V>
ONDOL_VEC void add_fifth_bits(typename V::I32 high, typename V::I32* codes) {
  unrolled<8>([&](auto index) ONDOL_VEC_LAMBDA {
    constexpr int t = decltype(index)::value;
    // The product puts bit b of four at bit 8 b (among others).
    const auto four = V::and_(V::template shr<4 * t>(high), V::splat32(15));
    const auto spread = V::and_(V::mul32(four, V::splat32(0x00204081)), V::splat32(0x01010101));
    codes[t] = V::or_(codes[t], V::template shl<4>(spread));
  });
}

/// 64 bytes of each row as 256 codes of two bits: those of 32 bytes in bits 0-1, then in 2-3, ...
template <class V, class In>
ONDOL_VEC void two_bits(const In& in, size_t offset, typename V::I32* codes) {
  for (size_t h = 0; h < 2; ++h) {
    typename V::I32 packed[8];
    raw_bytes<V, 8>(in, offset + 32 * h, packed);
    for (size_t t = 0; t < 8; ++t) {
      codes[32 * h + t] = bits<V, 0, 3>(packed[t]);
      codes[32 * h + 8 + t] = bits<V, 2, 3>(packed[t]);
      codes[32 * h + 16 + t] = bits<V, 4, 3>(packed[t]);
      codes[32 * h + 24 + t] = bits<V, 6, 3>(packed[t]);
    }
  }
}

}  // namespace ondol::quant
