#include "simd/vec_x86.h"
#include "simd/wide_avx2.h"

#define ONDOL_LEAF leaf_avx2
#include "kernels/leaf.inc.h"
