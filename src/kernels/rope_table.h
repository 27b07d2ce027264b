// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops.h"

namespace ondol::kernels {

/// The angle that each pair of a head turns by per position, [n_rot / 2], with every scaling
/// applied: linear, frequency factors, YaRN (arXiv 2309.00071, "NTK-by-parts").
std::vector<double> rope_frequencies(const RopeParams& params);

/// attn_factor * cos and sin of one position's angles, [n_rot / 2] each.
void rope_angles(std::span<const double> frequencies, int32_t position, float attn_factor,
                 float* cos, float* sin);

}  // namespace ondol::kernels
