// Thread rule: test code, one thread.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/thread_team.h"
#include "kernels/cpu_ops.h"
#include "kernels/leaf.h"
#include "simd/isa.h"

namespace ondol::kernels::test {

/// A matrix of floats that owns its memory; its rows lie further apart than they are wide.
class Table {
 public:
  Table(int n, int width, int gap = 3) : n_(n), width_(width), stride_(width + gap) {
    values_.assign(static_cast<size_t>(n) * static_cast<size_t>(stride_), 0.0f);
  }
  Rows rows() { return {values_.data(), n_, width_, stride_}; }
  Rows rows(int first, int count) {
    return {values_.data() + int64_t{first} * stride_, count, width_, stride_};
  }
  float& at(int i, int j) { return values_[static_cast<size_t>(int64_t{i} * stride_ + j)]; }
  int n() const { return n_; }
  int width() const { return width_; }

 private:
  int n_, width_, stride_;
  std::vector<float> values_;
};

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  float normal(float deviation = 1.0f) {
    return std::normal_distribution<float>(0.0f, deviation)(engine_);
  }
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(engine_); }
  std::mt19937& engine() { return engine_; }
  Table table(int n, int width, float deviation = 1.0f) {
    Table t(n, width);
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < width; ++j) t.at(i, j) = normal(deviation);
    }
    return t;
  }
  std::vector<float> vector(size_t n, float deviation = 1.0f) {
    std::vector<float> v(n);
    for (float& x : v) x = normal(deviation);
    return v;
  }

 private:
  std::mt19937 engine_;
};

/// Whether two tables hold the same bits.
inline testing::AssertionResult same_bits(Table& a, Table& b) {
  for (int i = 0; i < a.n(); ++i) {
    for (int j = 0; j < a.width(); ++j) {
      if (std::bit_cast<uint32_t>(a.at(i, j)) == std::bit_cast<uint32_t>(b.at(i, j))) continue;
      return testing::AssertionFailure()
             << "row " << i << " column " << j << ": " << a.at(i, j) << " and " << b.at(i, j);
    }
  }
  return testing::AssertionSuccess();
}

/// A test for every instruction set; those that this CPU lacks are skipped.
class EachIsa : public testing::TestWithParam<simd::Isa> {
 protected:
  void SetUp() override {
    const auto chosen = simd::choose_isa(simd::isa_name(GetParam()));
    if (!chosen) GTEST_SKIP() << chosen.error().message;
  }
  const Leaf& leaf() const { return *find_leaf(GetParam()); }
};

inline std::vector<simd::Isa> all_isas() {
  std::vector<simd::Isa> list;
  for (const simd::IsaInfo& info : simd::isas()) list.push_back(info.isa);
  return list;
}
inline std::string isa_test_name(const testing::TestParamInfo<simd::Isa>& info) {
  return std::string(simd::isa_name(info.param));
}

}  // namespace ondol::kernels::test
