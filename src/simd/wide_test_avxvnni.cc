#include "simd/wide_avx2.h"

#define ONDOL_WIDE_TESTS wide_tests_avxvnni
#include "simd/wide_test.inc.h"
