#include "tokenizer/utf8.h"

#include <gtest/gtest.h>

#include "support/support.h"
#include "tokenizer/tokenizer.h"

namespace ondol::tokenizer {
namespace {

TEST(Utf8, ReadsEveryLengthOfCodePoint) {
  for (const char32_t value :
       {U'\0', U'a', U'\x7F', U'\x80', U'é', U'한', U'\xFFFF', U'😀', U'\x10FFFF'}) {
    std::string text;
    append_utf8(text, value);
    const CodePoint point = next_code_point(text);
    EXPECT_EQ(point.value, value);
    EXPECT_EQ(point.length, text.size());
    EXPECT_EQ(point.state, CodePoint::State::kGood);
  }
}

TEST(Utf8, ReplacesEachMaximalBrokenPartOnce) {
  const std::string r(kReplacement);
  EXPECT_EQ(replace_ill_formed("a\xC0\x80z"), "a" + r + r + "z");    // overlong
  EXPECT_EQ(replace_ill_formed("\xED\xA0\x80"), r + r + r);          // surrogate
  EXPECT_EQ(replace_ill_formed("\xF0\x9F\x98!"), r + "!");           // three of four bytes
  EXPECT_EQ(replace_ill_formed("\xF4\x90\x80\x80"), r + r + r + r);  // above U+10FFFF
  EXPECT_EQ(replace_ill_formed("ok\xE2\x96"), "ok" + r);             // cut at the end
  EXPECT_EQ(replace_ill_formed("plain \xED\x95\x9C"), "plain \xED\x95\x9C");
}

TEST(Utf8, StreamGivesTheSameTextHoweverItIsCut) {
  const std::string bytes = "a\xED\x95\x9C\xF0\x9F\x98\x80\xFF\xE2\x96z\xF0\x9F";
  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (size_t second = first; second <= bytes.size(); ++second) {
      Utf8Stream stream;
      std::string text = stream.push(std::string_view(bytes).substr(0, first));
      text += stream.push(std::string_view(bytes).substr(first, second - first));
      text += stream.push(std::string_view(bytes).substr(second));
      EXPECT_TRUE(is_valid_utf8(text));
      text += stream.flush();
      EXPECT_EQ(text, replace_ill_formed(bytes)) << first << " " << second;
    }
  }
}

TEST(Utf8, TheFirstIllFormedByteIsFound) {
  EXPECT_FALSE(ill_formed_at("plain and \xC3\xA9"));
  EXPECT_EQ(ill_formed_at("nine ascii letters \xFF and \xFF"), 19u);
  EXPECT_EQ(ill_formed_at("\xC3"), 0u);
}

TEST(Utf8, WhiteSpaceIsTrimmedAtEitherEnd) {
  EXPECT_EQ(without_space_before(" \t\xE3\x80\x80x "), "x ");
  EXPECT_EQ(without_space_after(" x\xE2\x80\x89\n"), " x");
  EXPECT_EQ(without_space_after("\xC2\xA0"), "");
  EXPECT_EQ(without_space_before("\xE2\x80\x8B"), "\xE2\x80\x8B");  // U+200B is no white space
}

TEST(Utf8, StreamCases) {
  const std::string path = test::shared_path("cases/utf8_streaming.jsonl");
  if (path.empty()) GTEST_SKIP() << test::kNoShared;
  for (const auto& line : test::read_json_lines(path)) {
    SCOPED_TRACE(std::string(line.at("id").as_string()));
    const auto& expected = line.at("expected").as_object();
    const auto& deltas = expected.at("delta_after_each_piece").as_array();
    Utf8Stream stream;
    std::string text;
    size_t i = 0;
    for (const auto& piece : line.at("input").at("pieces_hex").as_array()) {
      const std::string delta = stream.push(test::from_hex(std::string_view(piece.as_string())));
      EXPECT_EQ(delta, std::string_view(deltas.at(i++).as_string()));
      text += delta;
    }
    const std::string tail = stream.flush();
    EXPECT_EQ(tail, std::string_view(expected.at("tail_at_end").as_string()));
    EXPECT_EQ(text + tail, std::string_view(expected.at("text").as_string()));
  }
}

}  // namespace
}  // namespace ondol::tokenizer
