#include "gguf/text.h"

#include <gtest/gtest.h>

namespace ondol::gguf {
namespace {

TEST(Text, KnowsWellFormedUtf8) {
  for (const std::string_view good :
       {"", "abc", "\xED\x95\x9C", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF", "\xEE\x80\x80"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
    EXPECT_EQ(to_utf8(good), good);
  }
  EXPECT_TRUE(is_utf8(std::string_view("a\0b", 3)));
  for (const std::string_view bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xC3", "\xFF"}) {
    EXPECT_FALSE(is_utf8(bad));
    EXPECT_TRUE(is_utf8(to_utf8(bad)));
  }
}

TEST(Text, ReplacesEachMaximalPartOnce) {
  EXPECT_EQ(to_utf8("a\xE2\x82z"), "a\xEF\xBF\xBDz");
  EXPECT_EQ(to_utf8("\xF0\x9F\x98"), "\xEF\xBF\xBD");
  EXPECT_EQ(to_utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Text, PrintableHasNoControlsAndIsCut) {
  EXPECT_EQ(printable("a\x1B[2J\n"), "a\\x1b[2J\\x0a");
  EXPECT_EQ(printable("\xC2\x9B!"), "\\xc2\\x9b!");  // the one-byte form of ESC [
  EXPECT_EQ(printable("\xC2\xA0"), "\xC2\xA0");
  EXPECT_EQ(printable("\xFFok"), "\\xffok");
  EXPECT_EQ(printable("abcdef", 3), "abc…");
  EXPECT_EQ(printable("abc", 3), "abc");
}

TEST(Text, CommasEveryThreeDigits) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(134515008), "134,515,008");
  EXPECT_EQ(with_commas(UINT64_MAX), "18,446,744,073,709,551,615");
}

}  // namespace
}  // namespace ondol::gguf
