#include "kernels/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ondol::kernels {
namespace {

/// The pair whose wave turns `rotations` times within the original context.
double pair_with_rotations(const RopeParams& p, double rotations) {
  const double turns = p.original_ctx / (rotations * 2.0 * std::numbers::pi);
  return p.n_rot * std::log(turns) / (2.0 * std::log(static_cast<double>(p.freq_base)));
}

/// 1 for pairs that turn fast and keep their frequency, 0 for slow ones, which are interpolated; a
/// ramp between.
double share_kept(double pair, double low, double high) {
  const double ramp = (pair - low) / std::max(0.001, high - low);
  return 1.0 - std::clamp(ramp, 0.0, 1.0);
}

}  // namespace

std::vector<double> rope_frequencies(const RopeParams& p) {
  const int half = p.n_rot / 2;
  std::vector<double> frequencies(static_cast<size_t>(half));
  double low = 0.0;
  double high = 0.0;
  if (p.yarn_ext_factor != 0.0f) {
    low = std::max(0.0, std::floor(pair_with_rotations(p, p.yarn_beta_fast)));
    high = std::min(p.n_rot - 1.0, std::ceil(pair_with_rotations(p, p.yarn_beta_slow)));
  }
  for (int i = 0; i < half; ++i) {
    double own = std::pow(static_cast<double>(p.freq_base), -2.0 * i / p.n_rot);
    if (p.freq_factors != nullptr) own /= p.freq_factors[i];
    const double interpolated = own * p.freq_scale;
    const double kept =
        p.yarn_ext_factor != 0.0f ? share_kept(i, low, high) * p.yarn_ext_factor : 0.0;
    frequencies[static_cast<size_t>(i)] = interpolated * (1.0 - kept) + own * kept;
  }
  return frequencies;
}

void rope_angles(std::span<const double> frequencies, int32_t position, float attn_factor,
                 float* cos, float* sin) {
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double angle = position * frequencies[i];
    cos[i] = static_cast<float>(std::cos(angle) * attn_factor);
    sin[i] = static_cast<float>(std::sin(angle) * attn_factor);
  }
}

}  // namespace ondol::kernels
