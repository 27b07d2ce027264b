#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tokenizer/merge.h"
#include "tokenizer/toy_vocab.h"
#include "tokenizer/utf8.h"

namespace ondol::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kMark(kSpaceMark);

// <unk> <s> </s>, the 256 bytes, then characters and words.
struct Pieces {
  test::Toy toy;
  int mark, a, b, ab, ba, mark_a, mark_ab, run;
};

Pieces sentence_piece() {
  Pieces p{};
  p.toy.add("<unk>", TokenKind::kUnknown);
  p.toy.add("<s>", TokenKind::kControl);
  p.toy.add("</s>", TokenKind::kControl);
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", static_cast<unsigned>(byte));
    p.toy.add(text, TokenKind::kByte);
  }
  p.mark = p.toy.add(kMark, TokenKind::kNormal, -10);
  p.a = p.toy.add("a", TokenKind::kNormal, -11);
  p.b = p.toy.add("b", TokenKind::kNormal, -12);
  p.ab = p.toy.add("ab", TokenKind::kNormal, -1);
  p.ba = p.toy.add("ba", TokenKind::kNormal, -1);
  p.mark_a = p.toy.add(kMark + "a", TokenKind::kNormal, -2);
  p.mark_ab = p.toy.add(kMark + "ab", TokenKind::kNormal, -3);
  p.run = p.toy.add("  ", TokenKind::kUserDefined, -1000);
  return p;
}

TEST(Spm, TheBestScoreMergesFirstAndOfEqualsTheLeftmost) {
  const auto p = sentence_piece();
  auto writer = p.toy.writer("llama", "");
  writer.set("tokenizer.ggml.add_space_prefix", false);
  const auto toy = test::load(writer);
  ASSERT_TRUE(toy.tokenizer) << toy.error();
  EXPECT_THAT(toy->encode("ab", {}), ElementsAre(p.ab));
  EXPECT_THAT(toy->encode("aba", {}), ElementsAre(p.ab, p.a));
  EXPECT_THAT(toy->encode("bab", {}), ElementsAre(p.ba, p.b));
  EXPECT_THAT(toy->encode("a ab a", {}), ElementsAre(p.a, p.mark_ab, p.mark_a));
}

TEST(Spm, EveryStretchOfTextGetsItsSpace) {
  const auto p = sentence_piece();
  const auto toy = test::load(p.toy.writer("llama", ""));
  EXPECT_THAT(toy->encode("ab", {}), ElementsAre(p.mark_ab));
  EXPECT_THAT(toy->encode("a<s>a", {.parse_special = true}), ElementsAre(p.mark_a, 1, p.mark_a));
  EXPECT_THAT(toy->encode("", {}), ElementsAre());
  EXPECT_THAT(toy->encode("ab", {.add_special = true}),
              ElementsAre(1, p.mark_ab));  // BOS is SentencePiece's default
  EXPECT_EQ(decode(*toy, toy->encode("ab a", {}), false), " ab a");
}

TEST(Spm, WhatIsNoTokenFallsBackToBytes) {
  const auto p = sentence_piece();
  auto writer = p.toy.writer("llama", "");
  writer.set("tokenizer.ggml.add_space_prefix", false);
  const auto toy = test::load(writer);
  EXPECT_THAT(toy->encode("\xC3\xA9", {}), ElementsAre(3 + 0xC3, 3 + 0xA9));
  EXPECT_THAT(toy->encode("<s>", {}), ElementsAre(3 + '<', 3 + 's', 3 + '>'));
  EXPECT_THAT(toy->encode("<0x41>", {.parse_special = true}),
              testing::SizeIs(6));  // letters, not the byte
  EXPECT_EQ(toy->piece(3 + 0x41, false), "A");
  EXPECT_EQ(toy->piece(p.mark_a, false), " a");
  EXPECT_EQ(toy->find(kMark + "ab"), p.mark_ab);
}

TEST(Spm, WithoutBytesTheUnknownTokenStands) {
  test::Toy toy;
  toy.add("<unk>", TokenKind::kUnknown);
  toy.add("<s>", TokenKind::kControl);
  toy.add("</s>", TokenKind::kControl);
  toy.add(kMark);
  EXPECT_THAT(test::load(toy.writer("llama", ""))->encode("x", {}), ElementsAre(3, 0));
}

TEST(Spm, RunsOfSpacesMayBeWrittenWithMarks) {
  const auto p = sentence_piece();
  auto writer = p.toy.writer("llama", "");
  writer.set("tokenizer.ggml.add_space_prefix", false);
  const auto toy = test::load(writer);
  EXPECT_THAT(toy->encode("a  b", {}), ElementsAre(p.a, p.run, p.b));
  EXPECT_THAT(toy->encode("a" + kMark + kMark + "b", {}), ElementsAre(p.a, p.run, p.b));
  EXPECT_THAT(toy->encode("b" + kMark + " b", {}), ElementsAre(p.b, p.run, p.b));
}

TEST(Spm, TokensAcrossTheBeginningOfAWordAreFound) {
  auto p = sentence_piece();
  const int across = p.toy.add("b" + kMark, TokenKind::kNormal, -0.5F);
  auto writer = p.toy.writer("llama", "");
  writer.set("tokenizer.ggml.add_space_prefix", false);
  const auto toy = test::load(writer);
  EXPECT_THAT(toy->encode("b a", {}), ElementsAre(across, p.a));
  EXPECT_THAT(toy->encode("a a", {}), ElementsAre(p.a, p.mark_a));
}

TEST(Spm, ALongWordTakesAFewStepsPerCharacter) {
  Merger merger;
  constexpr uint32_t kCount = 200000;
  for (uint32_t i = 0; i < kCount; ++i)
    merger.symbols.push_back({.begin = i, .end = i + 1, .id = 0});
  merger.run([](const Symbol& left, const Symbol& right) {
    const uint32_t length = right.end - left.begin;
    return length <= 16 ? MergeMap::Merge{.rank = length, .result = 0} : MergeMap::Merge{};
  });
  EXPECT_EQ(merger.symbols.size(), kCount / 16);
  EXPECT_LT(merger.steps, 4 * kCount);
}

TEST(Spm, ScoresMustBeThereAndBeNumbers) {
  const auto p = sentence_piece();
  EXPECT_THAT(test::load(p.toy.writer("llama", "").erase("tokenizer.ggml.scores")).error(),
              HasSubstr("tokenizer.ggml.scores"));
  auto broken = p.toy;
  broken.scores[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(test::load(broken.writer("llama", "")).error(),
              HasSubstr("tokenizer.ggml.scores[5]"));
}

}  // namespace
}  // namespace ondol::tokenizer
