#include "simd/isa.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#ifdef __aarch64__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace ondol::simd {
namespace {

#if defined(__x86_64__)
constexpr bool kX86 = true;
constexpr bool kArm = false;
#elif defined(__aarch64__)
constexpr bool kX86 = false;
constexpr bool kArm = true;
#else
constexpr bool kX86 = false;
constexpr bool kArm = false;
#endif

/// What the kernels of an instruction set need. The compiler's check includes the operating
/// system's saving of the registers.
bool cpu_has(Isa isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
                    __builtin_cpu_supports("f16c") != 0;
  const bool avx512 =
      avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return avx2;
    case Isa::kAvxVnni:
      return avx2 && __builtin_cpu_supports("avxvnni") != 0;
    case Isa::kAvx512:
      return avx512;
    case Isa::kAvx512Vnni:
      return avx512 && __builtin_cpu_supports("avx512vnni") != 0;
    case Isa::kNeon:
      return false;
  }
  return false;
#elif defined(__aarch64__)
  return isa == Isa::kScalar || (isa == Isa::kNeon && (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0);
#else
  return isa == Isa::kScalar;
#endif
}

std::string supported_names() {
  std::string names;
  for (const IsaInfo& info : isas()) {
    if (!info.built || !info.supported) continue;
    if (!names.empty()) names += ", ";
    names += info.name;
  }
  return names;
}

}  // namespace

std::span<const IsaInfo> isas() {
  static const std::array<IsaInfo, 6> table = [] {
    std::array<IsaInfo, 6> list = {{{Isa::kAvx512Vnni, "avx512vnni", kX86, false},
                                    {Isa::kAvxVnni, "avxvnni", kX86, false},
                                    {Isa::kAvx512, "avx512", kX86, false},
                                    {Isa::kAvx2, "avx2", kX86, false},
                                    {Isa::kNeon, "neon", kArm, false},
                                    {Isa::kScalar, "scalar", true, true}}};
    for (IsaInfo& info : list) info.supported = cpu_has(info.isa);
    return list;
  }();
  return table;
}

Result<Isa> choose_isa(std::string_view name) {
  for (const IsaInfo& info : isas()) {
    const bool usable = info.built && info.supported;
    if (name.empty() && usable) return info.isa;
    if (name.empty() || name != info.name) continue;
    if (usable) return info.isa;
    return usage_error(fmt::format("ONDOL_ISA={} cannot run on this CPU; it supports {}", name,
                                   supported_names()));
  }
  return usage_error(
      fmt::format("ONDOL_ISA={} is not an instruction set known here; this CPU supports {}", name,
                  supported_names()));
}

std::string_view isa_name(Isa isa) {
  const auto found = std::ranges::find(isas(), isa, &IsaInfo::isa);
  return found != isas().end() ? found->name : "unknown";
}

}  // namespace ondol::simd
