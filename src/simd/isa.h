// Thread rule: pure functions; the CPU is looked at once.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"

namespace ondol::simd {

enum class Isa { kScalar, kAvx2, kAvxVnni, kAvx512, kAvx512Vnni, kNeon };

/// One instruction set that kernels exist for.
struct IsaInfo {
  Isa isa;
  std::string_view name;  ///< as in ONDOL_ISA: scalar, avx2, avxvnni, avx512, avx512vnni, neon
  bool built;             ///< kernels for it are in this program
  bool supported;         ///< this CPU (and operating system) runs it
};

/// All instruction sets, the best first; scalar is last and always there.
std::span<const IsaInfo> isas();

/// The kernels to use: the best that is built and supported, or the one `name` asks for (the value
/// of ONDOL_ISA; empty means no wish). A usage error where it is unknown or not supported, naming
/// those that are.
Result<Isa> choose_isa(std::string_view name);

std::string_view isa_name(Isa isa);

}  // namespace ondol::simd
