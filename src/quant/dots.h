// Thread rule: templates over pure functions.
//
// The formats that can be multiplied, for the kernels: one line each (see dot.h).
#pragma once

#include "quant/dot.h"
#include "quant/floats.h"
#include "quant/iq4_nl.h"
#include "quant/iq4_xs.h"
#include "quant/mxfp4.h"
#include "quant/q2_k.h"
#include "quant/q3_k.h"
#include "quant/q4_0.h"
#include "quant/q4_1.h"
#include "quant/q4_k.h"
#include "quant/q5_0.h"
#include "quant/q5_1.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"
#include "quant/q8_0.h"
#include "quant/q8_k.h"

/// X(name as in formats.h, dot template)
#define ONDOL_QUANT_DOTS(X) \
  X("F32", DotF32)          \
  X("F16", DotF16)          \
  X("BF16", DotBF16)        \
  X("Q4_0", DotQ4_0)        \
  X("Q4_1", DotQ4_1)        \
  X("Q5_0", DotQ5_0)        \
  X("Q5_1", DotQ5_1)        \
  X("Q8_0", DotQ8_0)        \
  X("Q2_K", DotQ2_K)        \
  X("Q3_K", DotQ3_K)        \
  X("Q4_K", DotQ4_K)        \
  X("Q5_K", DotQ5_K)        \
  X("Q6_K", DotQ6_K)        \
  X("Q8_K", DotQ8_K)        \
  X("IQ4_NL", DotIQ4_NL)    \
  X("IQ4_XS", DotIQ4_XS)    \
  X("MXFP4", DotMXFP4)
