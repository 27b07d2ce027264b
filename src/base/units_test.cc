#include "base/units.h"

#include <gtest/gtest.h>

namespace ondol {
namespace {

TEST(Units, ParsesSizes) {
  EXPECT_EQ(parse_size("4096").value(), 4096u);
  EXPECT_EQ(parse_size("512M").value(), 512ull << 20);
  EXPECT_EQ(parse_size("8G").value(), 8ull << 30);
  EXPECT_EQ(parse_size("1.5GiB").value(), 3ull << 29);
  EXPECT_EQ(parse_size("2kb").value(), 2048u);
}

TEST(Units, RefusesWhatIsNoSize) {
  for (const char* text : {"", "G", "-1", "8Q", "nan", "inf", "1e300", "8GG", "8 G"}) {
    const auto size = parse_size(text);
    ASSERT_FALSE(size) << text;
    EXPECT_EQ(size.error().kind, ErrorKind::kUsage);
  }
}

TEST(Units, WritesForPeople) {
  EXPECT_EQ(format_size(512), "512 B");
  EXPECT_EQ(format_size(3ull << 29), "1.5 GiB");
  EXPECT_EQ(format_count(134515008), "134.5 M");
}

TEST(Units, NearestName) {
  const std::string_view names[] = {"--threads", "--temp", "--top-k"};
  EXPECT_EQ(nearest_name("--thread", names), "--threads");
  EXPECT_EQ(nearest_name("--zzzzzzzzz", names), "");
}

}  // namespace
}  // namespace ondol
