#include "quant/dot_test_leaf.h"
#include "simd/vec_scalar.h"

namespace ondol::quant {
bool dot_scalar(const DotCall& call) { return dot_by_name<simd::Vec>(call); }
}  // namespace ondol::quant
