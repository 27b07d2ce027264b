// Thread rule: pure functions.
//
// How good blocks are found: scales and codes that make the squared error of a block small. A scale
// that is tried gives the nearest codes; those codes give the best scale for them by least squares;
// of all that were tried the best stays. Values are finite and at most kLargest in magnitude, so
// that sums of squares stay finite.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "quant/half.h"

namespace ondol::quant {

inline constexpr float kLargest = 1e12f;    ///< row values are cut to this before they are fitted
inline constexpr float kSmallest = 1e-30f;  ///< a block without anything larger is zero

/// 1 / x, or 0 for a scale that stands for "all zero".
inline float inverse_scale(float x) { return std::abs(x) < kSmallest ? 0.0f : 1.0f / x; }

/// The integers lo .. hi as levels that a scale multiplies.
struct IntegerLevels {
  int lo;
  int hi;
  int nearest(float x) const {
    return static_cast<int>(
        std::lrintf(std::clamp(x, static_cast<float>(lo), static_cast<float>(hi))));
  }
  int largest() const { return std::max(-lo, hi); }
};

/// A sorted table of levels.
struct TableLevels {
  std::span<const int8_t> table;
  int nearest(float x) const { return table[static_cast<size_t>(nearest_index(x))]; }
  int nearest_index(float x) const {
    const auto above =
        std::ranges::lower_bound(table, x, {}, [](int8_t v) { return static_cast<float>(v); });
    if (above == table.begin()) return 0;
    const auto i = static_cast<int>(above - table.begin());
    if (above == table.end()) return i - 1;
    return x - static_cast<float>(above[-1]) <= static_cast<float>(*above) - x ? i - 1 : i;
  }
  int largest() const { return std::max(-table.front(), +table.back()); }
};

/// Σ x·level and Σ level² at the nearest levels to x / scale.
struct Moments {
  float xq = 0;
  float qq = 0;
  float scale() const { return qq > 0 ? xq / qq : 0.0f; }
  float gain() const { return qq > 0 ? xq * xq / qq : 0.0f; }  ///< squared error saved
};

template <class Levels>
Moments moments(std::span<const float> x, float scale, Levels levels) {
  const float inverse = inverse_scale(scale);
  Moments sum;
  for (const float value : x) {
    const auto level = static_cast<float>(levels.nearest(value * inverse));
    sum.xq += value * level;
    sum.qq += level * level;
  }
  return sum;
}

/// The scale, of either sign, for x ≈ scale * level. The largest value is laid on or a little
/// inside or outside the largest level, so that the others fall on different levels each time.
template <class Levels>
float fit_scale(std::span<const float> x, Levels levels) {
  float extreme = 0;
  for (const float value : x) {
    if (std::abs(value) > std::abs(extreme)) extreme = value;
  }
  if (std::abs(extreme) < kSmallest) return 0.0f;
  const auto top = static_cast<float>(levels.largest());
  Moments best;
  for (int step = -8; step <= 8; ++step) {
    const float reach = top * (1.0f + 0.0125f * static_cast<float>(step));
    for (const float scale : {-extreme / reach, extreme / reach}) {
      const Moments tried = moments(x, scale, levels);
      if (tried.gain() > best.gain()) best = tried;
    }
  }
  const Moments again = moments(x, best.scale(), levels);
  return again.gain() > best.gain() ? again.scale() : best.scale();
}

/// x ≈ scale * q + min, q in 0 .. hi.
struct Affine {
  float scale = 0;
  float min = 0;
  int nearest(float x, int hi) const {
    const float q = (x - min) * inverse_scale(scale);
    return static_cast<int>(std::lrintf(std::clamp(q, 0.0f, static_cast<float>(hi))));
  }
  float error(std::span<const float> x, int hi) const;  ///< squared, at the nearest q
};

/// The best affine fit; with `below_zero` min <= 0 and scale >= 0, as formats with an unsigned
/// minimum need it.
Affine fit_affine(std::span<const float> x, int hi, bool below_zero);

/// A block of 256 as sub-blocks: x ≈ (d * scale[j]) * q - (dmin * min[j]).
struct AffineSuperBlock {
  uint16_t d = 0;  ///< binary16
  uint16_t dmin = 0;
  std::array<uint8_t, 16> scale{};
  std::array<uint8_t, 16> min{};
  std::array<uint8_t, 256> q{};
};
/// `sub` values in a sub-block; q in 0 .. hi; scales and minima in 0 .. scale_hi.
AffineSuperBlock fit_affine_super_block(const float* x, int sub, int hi, int scale_hi);

/// A block of 256 as sub-blocks: x ≈ (d * scale[j]) * level.
struct ScaledSuperBlock {
  uint16_t d = 0;  ///< binary16
  std::array<int8_t, 16> scale{};
  std::array<int8_t, 256> level{};
};
/// Scales in scale_lo .. -scale_lo - 1.
template <class Levels>
ScaledSuperBlock fit_scaled_super_block(const float* x, int sub, Levels levels, int scale_lo);

/// Squared error of x ≈ scale * level at the nearest levels.
template <class Levels>
float scaled_error(std::span<const float> x, float scale, Levels levels) {
  const float inverse = inverse_scale(scale);
  float error = 0;
  for (const float value : x) {
    const float miss = value - scale * static_cast<float>(levels.nearest(value * inverse));
    error += miss * miss;
  }
  return error;
}

template <class Levels>
ScaledSuperBlock fit_scaled_super_block(const float* x, int sub, Levels levels, int scale_lo) {
  constexpr int kRounds = 3;
  const int n_sub = 256 / sub;
  std::array<float, 16> wanted{};
  float extreme = 0;
  for (int j = 0; j < n_sub; ++j) {
    wanted[j] = fit_scale(std::span(x + j * sub, sub), levels);
    if (std::abs(wanted[j]) > std::abs(extreme)) extreme = wanted[j];
  }
  ScaledSuperBlock best;
  float best_error = std::numeric_limits<float>::infinity();
  float d = extreme / static_cast<float>(scale_lo);
  for (int round = 0; round < kRounds; ++round) {
    ScaledSuperBlock block;
    block.d = to_half_finite(d);
    const float d_stored = half_to_float(block.d);
    float error = 0;
    Moments whole;
    for (int j = 0; j < n_sub; ++j) {
      const std::span values(x + j * sub, sub);
      // Scales next to the wanted one as well: the codes change with it, and the error is not
      // symmetric.
      const IntegerLevels scales{scale_lo, -scale_lo - 1};
      const int middle = scales.nearest(wanted[j] * inverse_scale(d_stored));
      float least = std::numeric_limits<float>::infinity();
      for (int s = std::max(middle - 1, scales.lo); s <= std::min(middle + 1, scales.hi); ++s) {
        const float tried = scaled_error(values, d_stored * static_cast<float>(s), levels);
        if (tried >= least) continue;
        least = tried;
        block.scale[j] = static_cast<int8_t>(s);
      }
      error += least;
      const float scale = d_stored * static_cast<float>(block.scale[j]);
      const float inverse = inverse_scale(scale);
      for (int i = 0; i < sub; ++i) {
        const int level = levels.nearest(values[i] * inverse);
        block.level[j * sub + i] = static_cast<int8_t>(level);
        const auto product = static_cast<float>(block.scale[j] * level);
        whole.xq += values[i] * product;
        whole.qq += product * product;
      }
    }
    if (error < best_error) {
      best_error = error;
      best = block;
    }
    d = whole.scale();
  }
  return best;
}

}  // namespace ondol::quant
