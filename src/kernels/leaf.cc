#include "kernels/leaf.h"

namespace ondol::kernels {

extern const Leaf leaf_scalar;
#if defined(__x86_64__)
extern const Leaf leaf_avx2;
extern const Leaf leaf_avxvnni;
extern const Leaf leaf_avx512;
extern const Leaf leaf_avx512vnni;
#elif defined(__aarch64__)
extern const Leaf leaf_neon;
#endif

const Leaf* find_leaf(simd::Isa isa) {
  switch (isa) {
    case simd::Isa::kScalar:
      return &leaf_scalar;
#if defined(__x86_64__)
    case simd::Isa::kAvx2:
      return &leaf_avx2;
    case simd::Isa::kAvxVnni:
      return &leaf_avxvnni;
    case simd::Isa::kAvx512:
      return &leaf_avx512;
    case simd::Isa::kAvx512Vnni:
      return &leaf_avx512vnni;
#elif defined(__aarch64__)
    case simd::Isa::kNeon:
      return &leaf_neon;
#endif
    default:
      return nullptr;
  }
}

}  // namespace ondol::kernels
