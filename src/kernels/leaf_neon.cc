#include "simd/vec_neon.h"
#include "simd/wide_neon.h"

#define ONDOL_LEAF leaf_neon
#include "kernels/leaf.inc.h"
