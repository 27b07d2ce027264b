// Thread rule: pure functions. Part of leaf.inc.h: how keys and values lie in a page (kv_view.h),
// and storing a token's.

#include <cstdint>
#include <cstring>

#include "kernels/leaf.h"
#include "simd/vec.h"

namespace ondol::kernels {
namespace {

using simd::Vec;

/// Bytes of the keys of 32 dimensions of a q8_0 page: a scale for each token, then the codes.
constexpr int kQ8KeyBlock = kPageTokens * 34;

/// Stored value i of a token's key in a page of 2- or 4-byte values.
template <class T>
ONDOL_VEC void scatter(uint8_t* page, int slot, const T* values, int first, int n) {
  for (int i = 0; i < n; ++i)
    std::memcpy(page + static_cast<size_t>((first + i) * kPageTokens + slot) * sizeof(T),
                values + i, sizeof(T));
}

/// f(first, eight halves, n): the row in eights, the last one shorter.
template <class F>
ONDOL_VEC void for_halves(const float* x, int n, F f) {
  uint16_t halves[8];
  for (int i = 0; i < n; i += 8) {
    const int count = n - i < 8 ? n - i : 8;
    Vec::store_f16(halves, count == 8 ? Vec::fload(x + i) : Vec::fload_n(x + i, count));
    f(i, halves, count);
  }
}

/// 32 values as a float16 step and 32 int8, from these values alone.
ONDOL_VEC void quantize_block(const float* x, uint8_t* step, int8_t* codes) {
  auto m = Vec::fzero();
  for (int j = 0; j < 32; j += 8) m = Vec::fmax(m, Vec::fabs(Vec::fload(x + j)));
  const float largest_value = Vec::reduce_max(m);
  const bool zero = largest_value < 1e-36f;
  uint8_t steps[16];
  Vec::store_f16(steps, Vec::splat_f(zero ? 0.0f : largest_value / 127.0f));
  std::memcpy(step, steps, 2);
  const auto f = Vec::splat_f(zero ? 0.0f : 127.0f / largest_value);
  Vec::store(codes,
             Vec::quantized(Vec::fmul(Vec::fload(x), f), Vec::fmul(Vec::fload(x + 8), f),
                            Vec::fmul(Vec::fload(x + 16), f), Vec::fmul(Vec::fload(x + 24), f)));
}

void store_key(KvType type, uint8_t* page, int slot, const float* x, int dim) {
  switch (type) {
    case KvType::kF16:
      return for_halves(x, dim, [&](int first, const uint16_t* halves, int n) {
        scatter(page, slot, halves, first, n);
      });
    case KvType::kF32:
      return scatter(page, slot, x, 0, dim);
    case KvType::kQ8_0:
      for (int i = 0; i < dim; i += 32, page += kQ8KeyBlock) {
        int8_t codes[32];
        quantize_block(x + i, page + 2 * slot, codes);
        for (int j = 0; j < 32; j += 4)
          std::memcpy(page + 2 * kPageTokens + j * kPageTokens + 4 * slot, codes + j, 4);
      }
  }
}

void store_value(KvType type, uint8_t* page, int slot, const float* x, int dim) {
  switch (type) {
    case KvType::kF16:
      return for_halves(x, dim, [&](int first, const uint16_t* halves, int n) {
        std::memcpy(page + 2 * (slot * dim + first), halves, static_cast<size_t>(n) * 2);
      });
    case KvType::kF32:
      std::memcpy(page + 4 * slot * dim, x, static_cast<size_t>(dim) * 4);
      return;
    case KvType::kQ8_0:
      uint8_t* codes = page + dim / 32 * 2 * kPageTokens + slot * dim;
      for (int i = 0; i < dim; i += 32) {
        int8_t block[32];
        quantize_block(x + i, page + (i / 32 * kPageTokens + slot) * 2, block);
        std::memcpy(codes + i, block, 32);
      }
  }
}

}  // namespace
}  // namespace ondol::kernels
