#include "simd/wide_avx512.h"

#define ONDOL_WIDE_TESTS wide_tests_avx512
#include "simd/wide_test.inc.h"
