#include "simd/isa.h"

#include <gmock/gmock.h>

namespace ondol::simd {
namespace {

using testing::HasSubstr;

TEST(Isa, ScalarIsLastAndAlwaysThere) {
  EXPECT_EQ(isas().back().isa, Isa::kScalar);
  EXPECT_TRUE(isas().back().built && isas().back().supported);
}

TEST(Isa, EachSupportedOneCanBeAskedFor) {
  for (const IsaInfo& info : isas()) {
    const auto chosen = choose_isa(info.name);
    EXPECT_EQ(chosen.has_value(), info.built && info.supported) << info.name;
    if (chosen) {
      EXPECT_EQ(*chosen, info.isa);
    }
    EXPECT_EQ(isa_name(info.isa), info.name);
  }
}

TEST(Isa, WithoutAWishTheFirstSupportedIsTaken) {
  const auto chosen = choose_isa("");
  ASSERT_TRUE(chosen);
  for (const IsaInfo& info : isas()) {
    if (!info.built || !info.supported) continue;
    EXPECT_EQ(*chosen, info.isa);
    break;
  }
}

TEST(Isa, ErrorsNameWhatIsSupported) {
  const auto unknown = choose_isa("avx3");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(unknown.error().message, HasSubstr("avx3"));
  EXPECT_THAT(unknown.error().message, HasSubstr("scalar"));
  for (const IsaInfo& info : isas()) {
    if (info.built && info.supported) continue;
    const auto refused = choose_isa(info.name);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("scalar"));
  }
}

}  // namespace
}  // namespace ondol::simd
