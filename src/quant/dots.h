// Thread rule: templates over pure functions.
//
// The formats that can be multiplied, for the kernels: one line each (see dot.h).
#pragma once

#include "quant/dot.h"
#include "quant/floats.h"
#include "quant/q4_1.h"
#include "quant/q8_0.h"

/// X(name as in formats.h, dot template)
#define ONDOL_QUANT_DOTS(X) \
  X("F32", DotF32)          \
  X("F16", DotF16)          \
  X("BF16", DotBF16)        \
  X("Q4_1", DotQ4_1)        \
  X("Q8_0", DotQ8_0)
