// Thread rule: test code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/dot.h"

namespace ondol::quant {

/// One row of blocks times some quantised columns.
struct DotCall {
  const char* format;
  const std::byte* blocks;
  int64_t n_blocks;
  const Acts* acts;  ///< [n_columns]
  int n_columns;
  float* out;  ///< [n_columns]
};

/// False where the format has no product with quantised activations. One function per instruction
/// set that this build has.
using DotLeaf = bool (*)(const DotCall&);
bool dot_scalar(const DotCall& call);
bool dot_avx2(const DotCall& call);
bool dot_avxvnni(const DotCall& call);
bool dot_avx512(const DotCall& call);
bool dot_avx512vnni(const DotCall& call);
bool dot_neon(const DotCall& call);

}  // namespace ondol::quant
