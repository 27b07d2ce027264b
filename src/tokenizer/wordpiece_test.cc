#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tokenizer/toy_vocab.h"

namespace ondol::tokenizer {
namespace {

using testing::ElementsAre;

enum Id { kPad, kUnk, kCls, kSep, kPlay, kIng, kCafe, kComma, kHan, kA, kAs };

// The two spellings of the same vocabulary.
test::Toy vocabulary(bool marked) {
  const auto word = [&](std::string_view text) {
    return std::string(marked ? "\xE2\x96\x81" : "").append(text);
  };
  const auto rest = [&](std::string_view text) {
    return std::string(marked ? "" : "##").append(text);
  };
  test::Toy toy;
  for (const char* name : {"[PAD]", "[UNK]", "[CLS]", "[SEP]"}) toy.add(name, TokenKind::kControl);
  toy.add(word("play"));
  toy.add(rest("ing"));
  toy.add(word("cafe"));
  toy.add(word(","));
  toy.add(word("\xE4\xB8\xAD"));
  toy.add(word("a"));
  toy.add(rest("a"));
  return toy;
}

TEST(WordPiece, TakesTheLongestKnownBeginning) {
  for (const bool marked : {false, true}) {
    const auto toy = test::load(vocabulary(marked).writer("bert", ""));
    ASSERT_TRUE(toy.tokenizer) << toy.error();
    EXPECT_THAT(toy->encode("Playing,  PLAY", {}), ElementsAre(kPlay, kIng, kComma, kPlay));
    EXPECT_THAT(toy->encode("playing", {.add_special = true}),
                ElementsAre(kCls, kPlay, kIng, kSep));
    EXPECT_THAT(toy->encode("ing playx", {}), ElementsAre(kUnk, kUnk));
    EXPECT_THAT(toy->encode("caf\xC3\xA9", {}), ElementsAre(kCafe));  // accents go
    EXPECT_THAT(toy->encode("a\xE4\xB8\xAD"
                            "a",
                            {}),
                ElementsAre(kA, kHan, kA));  // ideographs stand alone
    EXPECT_THAT(toy->encode("pl\x01"
                            "ay\xE2\x80\x8B",
                            {}),
                ElementsAre(kPlay));  // control characters go
    EXPECT_THAT(toy->encode("[SEP]", {.parse_special = true}), ElementsAre(kSep));
    EXPECT_THAT(toy->encode("", {}), ElementsAre());
  }
}

TEST(WordPiece, AWordOfMoreThanAHundredCharactersIsUnknown) {
  const auto toy = test::load(vocabulary(false).writer("bert", ""));
  EXPECT_THAT(toy->encode(std::string(100, 'a'), {}), testing::SizeIs(100));
  EXPECT_THAT(toy->encode(std::string(101, 'a'), {}), ElementsAre(kUnk));
}

TEST(WordPiece, ACasedVocabularyKeepsCaseAndAccents) {
  auto vocab = vocabulary(false);
  const int upper = vocab.add("Caf\xC3\xA9");
  const auto toy = test::load(vocab.writer("bert", ""));
  EXPECT_THAT(toy->encode("Caf\xC3\xA9 cafe Play", {}), ElementsAre(upper, kCafe, kUnk));
}

}  // namespace
}  // namespace ondol::tokenizer
