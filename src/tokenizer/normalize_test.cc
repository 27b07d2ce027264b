#include "tokenizer/normalize.h"

#include <gtest/gtest.h>

#include <string>

namespace ondol::tokenizer {
namespace {

TEST(Normalize, ComposesLatinHangulAndKana) {
  EXPECT_EQ(to_nfc("e\xCC\x81"), "\xC3\xA9");
  EXPECT_EQ(to_nfc("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB"),
            "\xED\x95\x9C");                                      // Hangul jamo to one syllable
  EXPECT_EQ(to_nfc("\xE3\x81\x8B\xE3\x82\x99"), "\xE3\x81\x8C");  // ka + voicing mark
  EXPECT_EQ(to_nfc("plain text"), "plain text");
  EXPECT_EQ(to_nfc("\xE2\x84\xAB"), "\xC3\x85");  // the Angstrom sign is a plain Å
}

TEST(Normalize, PutsMarksInCanonicalOrder) {
  // U+0323 (below, class 220) comes before U+0301 (above, class 230).
  EXPECT_EQ(to_nfc("q\xCC\x81\xCC\xA3"), "q\xCC\xA3\xCC\x81");
  EXPECT_EQ(to_nfd(U"\u1EAD"), U"a\u0323\u0302");
}

TEST(Normalize, ALongRunOfMarksIsNotQuadratic) {
  std::string text = "a";
  for (int i = 0; i < 300000; ++i) text += "\xCC\x81\xCC\xA3";
  const std::string normal = to_nfc(text);
  EXPECT_TRUE(normal.starts_with("\xE1\xBA\xA1\xCC\xA3"));  // U+1EA1, then the other marks below
  EXPECT_TRUE(normal.ends_with("\xCC\x81"));
}

TEST(Normalize, OnlyTextBelowTheMarksIsTriviallyComposed) {
  EXPECT_TRUE(is_trivially_nfc("ASCII and \xC3\xA9"));
  EXPECT_FALSE(is_trivially_nfc("e\xCC\x81"));
  EXPECT_FALSE(is_trivially_nfc("\xED\x95\x9C"));
}

}  // namespace
}  // namespace ondol::tokenizer
