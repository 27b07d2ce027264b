#include "decode/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace ondol::decode {
namespace {

using Words = std::array<uint32_t, 4>;

// The known answers that the authors of the paper publish for philox4x32 with ten rounds.
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, EveryPartOfTheKeyMatters) {
  std::set<double> seen;
  for (const uint64_t bit : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, uint64_t{1} << 63}) {
    for (int place = 0; place < 3; ++place) {
      const auto pair =
          uniform_pair(place == 0 ? bit : 0, place == 1 ? bit : 0, place == 2 ? bit : 0);
      seen.insert(pair[0]);
      seen.insert(pair[1]);
      for (const double u : pair) {
        EXPECT_GE(u, 0.0);
        EXPECT_LT(u, 1.0);
      }
    }
  }
  EXPECT_EQ(seen.size(), 2u * (1 + 3 * 3));  // bit 0 gives the same pair in all three places
}

}  // namespace
}  // namespace ondol::decode
