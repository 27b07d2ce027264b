// Thread rule: constant data.
#pragma once

#include <cstdint>

namespace ondol::quant {

/// The sixteen levels that IQ4_NL and IQ4_XS choose from: denser near zero, where most weights are.
// Not inline: a copy in each object, so that no leaf shares a symbol with others.
constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};

}  // namespace ondol::quant
