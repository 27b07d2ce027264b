// Thread rule: test code. Included by one file per instruction set, after that set's Vec.
//
// Every format's dot product over Vec, behind one function that a test can call without knowing
// Vec.
#pragma once

#include "quant/dot_test_leaves.h"
#include "quant/dots.h"

namespace ondol::quant {
namespace {

/// C columns at once, block after block, as a matmul kernel does it.
template <class V, class Dot, int C>
void dot_columns(const DotCall& call, int column) {
  Sum<V> sums[C];
  for (int64_t i = 0; i < call.n_blocks; ++i) {
    typename Dot::Block block;
    __builtin_memcpy(&block, call.blocks + i * static_cast<int64_t>(sizeof(block)), sizeof(block));
    const auto weights = Dot::unpack(block);
    for (int c = 0; c < C; ++c) Dot::add(weights, call.acts[column + c], i, sums[c]);
  }
  for (int c = 0; c < C; ++c) call.out[column + c] = V::reduce(sums[c].lanes);
}

template <class V, class Dot>
bool dot_row(const DotCall& call) {
  if constexpr (Dot::kActs == ActKind::kFloat) {
    return false;
  } else {
    int column = 0;
    for (; column + 4 <= call.n_columns; column += 4) dot_columns<V, Dot, 4>(call, column);
    for (; column < call.n_columns; ++column) dot_columns<V, Dot, 1>(call, column);
    return true;
  }
}

template <class V>
bool dot_by_name(const DotCall& call) {
#define ONDOL_CASE(NAME, DOT) \
  if (__builtin_strcmp(call.format, NAME) == 0) return dot_row<V, DOT<V>>(call);
  ONDOL_QUANT_DOTS(ONDOL_CASE)
#undef ONDOL_CASE
  return false;
}

}  // namespace
}  // namespace ondol::quant
