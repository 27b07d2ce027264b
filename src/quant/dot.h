// Thread rule: templates over pure functions.
//
// How a quantised format multiplies. A format's header (q4_1.h) has, beside its block, one template
//
//   template <class V> struct DotQ4_1 {
//     using Block = BlockQ4_1;   // bytes only, so that it may lie at any address
//     static constexpr ActKind kActs = ActKind::kBlocks32;
//     struct Weights { ... };    // a block, unpacked: V::Bytes, scales, ...
//     static Weights unpack(const Block& block);
//     // Adds block i of the row times block i of x.
//     static void add(const Weights& w, const Acts& x, int64_t i, Sum<V>& sum);
//   };
//
// over the vector vocabulary V (simd/vec.h), and a line in quant/dots.h. The matmul driver unpacks
// a block once and adds it to several columns, block after block in order.
//
// Bit-exactness rests on two rules. Within a block all products are summed in integers, exactly, so
// their order does not matter; across blocks `add` changes each lane of the sum by the same
// operations in the same order, whatever else is computed beside it. The end is V::reduce(lanes).
#pragma once

#include <cstdint>

#include "simd/vec.h"

namespace ondol::quant {

/// How the activations come to a format's dot product.
enum class ActKind : uint8_t {
  kFloat,      ///< as they are: the weights are floats of some width
  kBlocks32,   ///< int8, one scale per 32 values: formats with blocks of 32
  kBlocks256,  ///< int8, one scale per 256 values: formats with blocks of 256
};

/// One input row, quantised: value i is about scales[i / 32 or 256] * q[i], q within -127..127.
struct Acts {
  const int8_t* q = nullptr;
  const float* scales = nullptr;
  const int16_t* sums = nullptr;   ///< of each 16 q: for what a format adds to all its weights
  const float* offsets = nullptr;  ///< kBlocks32 only: scale * sum of the block's 32 q
};

/// An output on its way: lane j gathers bytes 4j .. 4j+3 of every 32, one of them offsets too.
template <class V>
struct Sum {
  typename V::F32 lanes = V::fzero();
};

/// lanes += dot * (weight * act), the step that ends a block: the scales of its two sides, the
/// first in all lanes.
template <class V>
ONDOL_VEC void add_scaled(Sum<V>& sum, typename V::I32 dot, typename V::F32 weight, float act) {
  sum.lanes = V::fma(V::to_f32(dot), V::fmul(weight, V::splat_f(act)), sum.lanes);
}

/// The same for a block whose codes were lifted by kLift so that they are unsigned:
/// `offset`, the sum of its activations, goes back out of the eight lanes.
template <int kLift, class V>
ONDOL_VEC void add_lifted(Sum<V>& sum, typename V::I32 dot, typename V::F32 weight, float act,
                          float offset) {
  auto out = V::splat_f(offset);
  if constexpr (kLift != 8) out = V::fmul(out, V::splat_f(static_cast<float>(kLift) / 8));
  const auto lowered = V::fms(V::to_f32(dot), V::splat_f(act), out);
  sum.lanes = V::fma(weight, lowered, sum.lanes);
}

/// What a format adds to all weights of a block: `weight` is zero but in one lane, `offset` the sum
/// of the block's activations.
template <class V>
ONDOL_VEC void add_offset(Sum<V>& sum, typename V::F32 weight, float offset) {
  sum.lanes = V::fma(weight, V::splat_f(offset), sum.lanes);
}

}  // namespace ondol::quant
