#include "tokenizer/added_tokens.h"

#include <gtest/gtest.h>

#include <string>

namespace ondol::tokenizer {
namespace {

std::string cut(const AddedTokens& tokens, std::string_view text) {
  std::string out;
  size_t done = 0;
  while (const auto match = tokens.find(text, done)) {
    out.append(text.substr(done, match->begin - done))
        .append("[")
        .append(std::to_string(match->entry->id))
        .append("]");
    done = match->end;
  }
  return out.append(text.substr(done));
}

TEST(AddedTokens, TakesTheLeftmostThenTheLongest) {
  const AddedTokens tokens({{.text = "<a>", .id = 1},
                            {.text = "<a><b>", .id = 2},
                            {.text = "a>x", .id = 3},
                            {.text = "<b>", .id = 4},
                            {.text = "\n", .id = 5},
                            {.text = "\n\n\n", .id = 6}});
  EXPECT_EQ(cut(tokens, "<a><b>"), "[2]");
  EXPECT_EQ(cut(tokens, "<a><b<b>"), "[1]<b[4]");
  EXPECT_EQ(cut(tokens, "<a>x"), "[1]x");
  EXPECT_EQ(cut(tokens, "a>x<"), "[3]<");
  EXPECT_EQ(cut(tokens, "\n\n\n\n\nz\n"), "[6][5][5]z[5]");
  EXPECT_EQ(cut(tokens, "nothing here"), "nothing here");
}

TEST(AddedTokens, OfTwoEqualTextsTheFirstStaysAndEmptyOnesGo) {
  const AddedTokens tokens({{.text = "x", .id = 7}, {.text = "", .id = 8}, {.text = "x", .id = 9}});
  EXPECT_EQ(tokens.size(), 1U);
  EXPECT_EQ(cut(tokens, "axa"), "a[7]a");
  EXPECT_EQ(cut(AddedTokens(), "axa"), "axa");
}

TEST(AddedTokens, BytesAboveAsciiAreOrderedToo) {
  const AddedTokens tokens({{.text = "\xEF\xBD\x9C", .id = 1},
                            {.text = "\x7F", .id = 2},
                            {.text = "\xEF\xBD\x9C\xE2", .id = 3}});
  EXPECT_EQ(cut(tokens, "\x7F\xEF\xBD\x9C\xE2\xEF\xBD\x9C"), "[2][3][1]");
}

}  // namespace
}  // namespace ondol::tokenizer
