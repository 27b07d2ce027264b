// Thread rule: templates over pure functions.
//
// The formats that can be multiplied, for the kernels: one line each (see panel.h).
#pragma once

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

/// X(name as in formats.h, panel template)
#define ONDOL_QUANT_PANELS(X) \
  X("F32", PanelF32)          \
  X("F16", PanelF16)          \
  X("BF16", PanelBF16)        \
  X("Q4_0", PanelQ4_0)        \
  X("Q4_1", PanelQ4_1)        \
  X("Q5_0", PanelQ5_0)        \
  X("Q5_1", PanelQ5_1)        \
  X("Q8_0", PanelQ8_0)        \
  X("Q2_K", PanelQ2_K)        \
  X("Q3_K", PanelQ3_K)        \
  X("Q4_K", PanelQ4_K)        \
  X("Q5_K", PanelQ5_K)        \
  X("Q6_K", PanelQ6_K)        \
  X("Q8_K", PanelQ8_K)        \
  X("IQ4_NL", PanelIQ4_NL)    \
  X("IQ4_XS", PanelIQ4_XS)    \
  X("MXFP4", PanelMXFP4)
