#include "simd/vec_x86.h"
#include "simd/wide_avx512.h"

#define ONDOL_LEAF leaf_avx512
#include "kernels/leaf.inc.h"
