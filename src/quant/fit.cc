#include "quant/fit.h"

#include <tuple>
#include <utility>

namespace ondol::quant {
namespace {

/// Least squares for x ≈ scale * q + min with the codes that `from` gives. Nothing where all codes
/// are equal.
Affine refit(std::span<const float> x, int hi, bool below_zero, Affine from) {
  float q_sum = 0, qq = 0, x_sum = 0, xq = 0;
  const auto n = static_cast<float>(x.size());
  for (const float value : x) {
    const auto q = static_cast<float>(from.nearest(value, hi));
    q_sum += q;
    qq += q * q;
    x_sum += value;
    xq += value * q;
  }
  const float determinant = n * qq - q_sum * q_sum;
  if (!(determinant > 0)) return from;
  Affine fitted{(n * xq - q_sum * x_sum) / determinant, (qq * x_sum - q_sum * xq) / determinant};
  if (below_zero && fitted.min > 0) fitted = {xq / qq, 0};
  if (below_zero && fitted.scale < 0) return from;
  return fitted;
}

/// Least squares for d and dmin of a super-block whose scales, minima and codes are given.
std::pair<float, float> refit_super(const float* x, int sub, const AffineSuperBlock& block) {
  float aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
  for (int i = 0; i < 256; ++i) {
    const auto a = static_cast<float>(block.scale[i / sub] * block.q[i]);
    const auto b = static_cast<float>(-block.min[i / sub]);
    aa += a * a;
    ab += a * b;
    bb += b * b;
    xa += x[i] * a;
    xb += x[i] * b;
  }
  const float determinant = aa * bb - ab * ab;
  if (determinant > 0) {
    const float d = (xa * bb - xb * ab) / determinant;
    const float dmin = (xb * aa - xa * ab) / determinant;
    if (d >= 0 && dmin >= 0) return {d, dmin};
  }
  return {half_to_float(block.d), half_to_float(block.dmin)};
}

/// The stored scale and minimum next to the wanted ones with the least error; returns that error.
float choose_pair(std::span<const float> x, int hi, int scale_hi, Affine wanted, float d,
                  float dmin, uint8_t& scale, uint8_t& min) {
  const IntegerLevels range{0, scale_hi};
  const int scale_middle = range.nearest(wanted.scale * inverse_scale(d));
  const int min_middle = range.nearest(-wanted.min * inverse_scale(dmin));
  float least = std::numeric_limits<float>::infinity();
  for (int s = std::max(scale_middle - 1, 0); s <= std::min(scale_middle + 1, scale_hi); ++s) {
    for (int m = std::max(min_middle - 1, 0); m <= std::min(min_middle + 1, scale_hi); ++m) {
      const Affine tried{d * static_cast<float>(s), -(dmin * static_cast<float>(m))};
      const float error = tried.error(x, hi);
      if (error >= least) continue;
      least = error;
      scale = static_cast<uint8_t>(s);
      min = static_cast<uint8_t>(m);
    }
  }
  return least;
}

}  // namespace

float Affine::error(std::span<const float> x, int hi) const {
  float sum = 0;
  for (const float value : x) {
    const float miss = value - (scale * static_cast<float>(nearest(value, hi)) + min);
    sum += miss * miss;
  }
  return sum;
}

Affine fit_affine(std::span<const float> x, int hi, bool below_zero) {
  auto [low, high] = std::ranges::minmax(x);
  if (below_zero) low = std::min(low, 0.0f);
  if (!(high - low > kSmallest)) return {0, std::abs(low) < kSmallest ? 0.0f : low};
  Affine best{(high - low) / static_cast<float>(hi), low};
  float best_error = best.error(x, hi);
  // Ranges from a little wider to clearly narrower than the values': with few levels it pays to cut
  // the extremes.
  for (int step = -4; step <= 10; ++step) {
    const float levels = static_cast<float>(hi) + 0.1f * static_cast<float>(step);
    const float scale = (high - low) / levels;
    const float centre = 0.5f * (low + high) - 0.5f * static_cast<float>(hi) * scale;
    for (const float start : {centre, low}) {
      Affine tried = refit(x, hi, below_zero, {scale, below_zero ? std::min(start, 0.0f) : start});
      for (int again = 0; again < 2; ++again) {
        const float error = tried.error(x, hi);
        if (error < best_error) {
          best_error = error;
          best = tried;
        }
        tried = refit(x, hi, below_zero, tried);
      }
    }
  }
  return best;
}

AffineSuperBlock fit_affine_super_block(const float* x, int sub, int hi, int scale_hi) {
  constexpr int kRounds = 3;
  const int n_sub = 256 / sub;
  std::array<Affine, 16> wanted{};
  float d = 0;
  float dmin = 0;
  for (int j = 0; j < n_sub; ++j) {
    wanted[j] = fit_affine(std::span(x + j * sub, sub), hi, true);
    d = std::max(d, wanted[j].scale / static_cast<float>(scale_hi));
    dmin = std::max(dmin, -wanted[j].min / static_cast<float>(scale_hi));
  }
  AffineSuperBlock best;
  float best_error = std::numeric_limits<float>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    AffineSuperBlock block;
    block.d = to_half_finite(d);
    block.dmin = to_half_finite(dmin);
    const float d_stored = half_to_float(block.d);
    const float dmin_stored = half_to_float(block.dmin);
    float error = 0;
    for (int j = 0; j < n_sub; ++j) {
      const std::span values(x + j * sub, sub);
      error += choose_pair(values, hi, scale_hi, wanted[j], d_stored, dmin_stored, block.scale[j],
                           block.min[j]);
      const Affine stored{d_stored * static_cast<float>(block.scale[j]),
                          -(dmin_stored * static_cast<float>(block.min[j]))};
      for (int i = 0; i < sub; ++i) {
        block.q[j * sub + i] = static_cast<uint8_t>(stored.nearest(values[i], hi));
      }
    }
    if (error < best_error) {
      best_error = error;
      best = block;
    }
    std::tie(d, dmin) = refit_super(x, sub, block);
  }
  return best;
}

}  // namespace ondol::quant
