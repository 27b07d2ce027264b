#include "simd/wide_neon.h"

#define ONDOL_WIDE_TESTS wide_tests_neon
#include "simd/wide_test.inc.h"
