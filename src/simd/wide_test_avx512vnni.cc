#include "simd/wide_avx512.h"

#define ONDOL_WIDE_TESTS wide_tests_avx512vnni
#include "simd/wide_test.inc.h"
