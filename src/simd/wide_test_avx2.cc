#include "simd/wide_avx2.h"

#define ONDOL_WIDE_TESTS wide_tests_avx2
#include "simd/wide_test.inc.h"
