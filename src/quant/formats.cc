#include "quant/formats.h"

#include <algorithm>
#include <array>

namespace ondol::quant {
namespace {

constexpr std::array kFormats = {
    Format{Type{0}, "F32", 1, 4, nullptr, nullptr},
    Format{Type{1}, "F16", 1, 2, nullptr, nullptr},
    Format{Type{2}, "Q4_0", 32, 18, nullptr, nullptr},
    Format{Type{3}, "Q4_1", 32, 20, nullptr, nullptr},
    Format{Type{6}, "Q5_0", 32, 22, nullptr, nullptr},
    Format{Type{7}, "Q5_1", 32, 24, nullptr, nullptr},
    Format{Type{8}, "Q8_0", 32, 34, nullptr, nullptr},
    Format{Type{9}, "Q8_1", 32, 36, nullptr, nullptr},
    Format{Type{10}, "Q2_K", 256, 84, nullptr, nullptr},
    Format{Type{11}, "Q3_K", 256, 110, nullptr, nullptr},
    Format{Type{12}, "Q4_K", 256, 144, nullptr, nullptr},
    Format{Type{13}, "Q5_K", 256, 176, nullptr, nullptr},
    Format{Type{14}, "Q6_K", 256, 210, nullptr, nullptr},
    Format{Type{15}, "Q8_K", 256, 292, nullptr, nullptr},
    Format{Type{16}, "IQ2_XXS", 256, 66, nullptr, nullptr},
    Format{Type{17}, "IQ2_XS", 256, 74, nullptr, nullptr},
    Format{Type{18}, "IQ3_XXS", 256, 98, nullptr, nullptr},
    Format{Type{19}, "IQ1_S", 256, 50, nullptr, nullptr},
    Format{Type{20}, "IQ4_NL", 32, 18, nullptr, nullptr},
    Format{Type{21}, "IQ3_S", 256, 110, nullptr, nullptr},
    Format{Type{22}, "IQ2_S", 256, 82, nullptr, nullptr},
    Format{Type{23}, "IQ4_XS", 256, 136, nullptr, nullptr},
    Format{Type{24}, "I8", 1, 1, nullptr, nullptr},
    Format{Type{25}, "I16", 1, 2, nullptr, nullptr},
    Format{Type{26}, "I32", 1, 4, nullptr, nullptr},
    Format{Type{27}, "I64", 1, 8, nullptr, nullptr},
    Format{Type{28}, "F64", 1, 8, nullptr, nullptr},
    Format{Type{29}, "IQ1_M", 256, 56, nullptr, nullptr},
    Format{Type{30}, "BF16", 1, 2, nullptr, nullptr},
    Format{Type{34}, "TQ1_0", 256, 54, nullptr, nullptr},
    Format{Type{35}, "TQ2_0", 256, 66, nullptr, nullptr},
    Format{Type{39}, "MXFP4", 32, 17, nullptr, nullptr},
    Format{Type{40}, "NVFP4", 64, 36, nullptr, nullptr},
    Format{Type{41}, "Q1_0", 128, 18, nullptr, nullptr},
};
static_assert(std::ranges::is_sorted(kFormats, {}, &Format::type));

}  // namespace

std::span<const Format> formats() { return kFormats; }

const Format* find_format(Type type) {
  const auto found = std::ranges::lower_bound(kFormats, type, {}, &Format::type);
  return found != kFormats.end() && found->type == type ? &*found : nullptr;
}

const Format* find_format(std::string_view name) {
  const auto found = std::ranges::find(kFormats, name, &Format::name);
  return found != kFormats.end() ? &*found : nullptr;
}

}  // namespace ondol::quant
