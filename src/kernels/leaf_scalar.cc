#define ONDOL_PLAIN_CALLS
#include "simd/vec_scalar.h"
#include "simd/wide_scalar.h"

#define ONDOL_LEAF leaf_scalar
#include "kernels/leaf.inc.h"
