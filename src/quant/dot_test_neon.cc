#include "quant/dot_test_leaf.h"
#include "simd/vec_neon.h"

namespace ondol::quant {
bool dot_neon(const DotCall& call) { return dot_by_name<simd::Vec>(call); }
}  // namespace ondol::quant
