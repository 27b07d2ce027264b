// Thread rule: templates over pure functions.
//
// F32, F16, BF16: no blocks; the activations stay floats. `load` gives 8 values, `kBytes` apart.
#pragma once

#include <cstdint>

#include "quant/dot.h"

namespace ondol::quant {

template <class V>
struct DotF32 {
  static constexpr ActKind kActs = ActKind::kFloat;
  static constexpr int kBytes = 4;
  ONDOL_VEC typename V::F32 load(const uint8_t* p) { return V::load_f32(p); }
};

template <class V>
struct DotF16 {
  static constexpr ActKind kActs = ActKind::kFloat;
  static constexpr int kBytes = 2;
  ONDOL_VEC typename V::F32 load(const uint8_t* p) { return V::load_f16(p); }
};

template <class V>
struct DotBF16 {
  static constexpr ActKind kActs = ActKind::kFloat;
  static constexpr int kBytes = 2;
  ONDOL_VEC typename V::F32 load(const uint8_t* p) { return V::load_bf16(p); }
};

}  // namespace ondol::quant
