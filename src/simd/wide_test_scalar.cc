#define ONDOL_PLAIN_CALLS
#include "simd/wide_scalar.h"

#define ONDOL_WIDE_TESTS wide_tests_scalar
#include "simd/wide_test.inc.h"
