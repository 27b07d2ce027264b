#include "quant/dot_test_leaf.h"
#include "simd/vec_x86.h"

namespace ondol::quant {
bool dot_avxvnni(const DotCall& call) { return dot_by_name<simd::Vec>(call); }
}  // namespace ondol::quant
