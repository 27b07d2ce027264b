#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tokenizer/toy_vocab.h"

namespace ondol::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<TokenId> bytes_of(std::string_view text) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  return ids;
}

TEST(Bpe, MergesByRankAndKeepsWordsApart) {
  const auto toy = test::load(test::byte_level().writer("gpt2", "gpt-2"));
  ASSERT_TRUE(toy.tokenizer) << toy.error();
  EXPECT_THAT(toy->encode("hello", {}), ElementsAre(259));
  EXPECT_THAT(toy->encode("hello", {}),
              ElementsAre(259));  // the second time from what is known of the word
  EXPECT_THAT(toy->encode("hell", {}), ElementsAre(258));
  EXPECT_THAT(toy->encode("hel w", {}), ElementsAre(256, 'l', 260));
  EXPECT_THAT(toy->encode("lll", {}), ElementsAre(257, 'l'));  // of equals the leftmost
  EXPECT_THAT(toy->encode("", {}), ElementsAre());
}

TEST(Bpe, AWordThatMergingCannotReachIsTakenWholeOnlyWhereTheRuleSaysSo) {
  auto vocab = test::byte_level();
  const int abc = vocab.add("abc");  // no merge rule makes it
  EXPECT_THAT(test::load(vocab.writer("gpt2", "gpt-2"))->encode("abc", {}),
              ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(test::load(vocab.writer("gpt2", "llama-bpe"))->encode("abc", {}), ElementsAre(abc));
}

TEST(Bpe, ControlTokensNeedTrustAndUserDefinedOnesDoNot) {
  const auto toy = test::load(test::byte_level().writer("gpt2", "gpt-2"));
  EXPECT_EQ(toy->encode("<s>", {}), bytes_of("<s>"));
  EXPECT_THAT(toy->encode("<s>", {.parse_special = true}), ElementsAre(262));
  EXPECT_THAT(toy->encode("<tool>", {}), ElementsAre(261));
  EXPECT_EQ(toy->encode("[PAD]", {.parse_special = true}), bytes_of("[PAD]"));
}

TEST(Bpe, BosAndEosFollowTheFile) {
  auto writer = test::byte_level().writer("gpt2", "gpt-2");
  writer.set("tokenizer.ggml.bos_token_id", 262U).set("tokenizer.ggml.eos_token_id", 263U);
  const EncodeOptions all{.add_special = true, .parse_special = true};
  EXPECT_THAT(test::load(writer)->encode("w", all), ElementsAre('w'));
  writer.set("tokenizer.ggml.add_bos_token", true).set("tokenizer.ggml.add_eos_token", true);
  const auto toy = test::load(writer);
  EXPECT_THAT(toy->encode("w", all), ElementsAre(262, 'w', 263));
  EXPECT_THAT(toy->encode("<s>w", all),
              ElementsAre(262, 'w', 263));  // written by the text: not twice
  EXPECT_THAT(toy->encode("", all), ElementsAre(262, 263));
  EXPECT_THAT(toy->encode("w", {}), ElementsAre('w'));
  EXPECT_TRUE(toy->is_end(263));
  EXPECT_FALSE(toy->is_end(262));
}

TEST(Bpe, EndTextsCountOnlyAsControlTokens) {
  auto vocab = test::byte_level();
  const int plain = vocab.add("<|eot_id|>");
  const int user = vocab.add("<|endoftext|>", TokenKind::kUserDefined);
  const int end = vocab.add("<|end|>", TokenKind::kControl);
  const auto toy = test::load(vocab.writer("gpt2", "gpt-2"));
  EXPECT_FALSE(toy->is_end(plain));
  EXPECT_FALSE(toy->is_end(user));
  EXPECT_TRUE(toy->is_end(end));
  vocab.add("<|return|>", TokenKind::kControl);
  EXPECT_FALSE(test::load(vocab.writer("gpt2", "gpt-2"))
                   ->is_end(end));  // there <|end|> closes a message only
}

TEST(Bpe, PiecesAreBytesAndFindIsByText) {
  const auto toy = test::load(test::byte_level().writer("gpt2", "gpt-2"));
  EXPECT_EQ(toy->piece(260, false), " w");
  EXPECT_EQ(toy->piece(0xED, false), "\xED");
  EXPECT_EQ(toy->piece(262, true), "<s>");
  EXPECT_EQ(toy->piece(262, false), "");
  EXPECT_EQ(toy->piece(261, false), "<tool>");
  EXPECT_EQ(toy->piece(-1, true), "");
  EXPECT_EQ(toy->piece(1 << 20, true), "");
  EXPECT_EQ(toy->token_text(260), "\xC4\xA0w");
  EXPECT_EQ(toy->find("\xC4\xA0w"), 260);
  EXPECT_EQ(toy->find("<s>"), 262);
  EXPECT_EQ(toy->find("[PAD]"), 264);
  EXPECT_EQ(toy->find("absent"), std::nullopt);
  EXPECT_EQ(toy->kind(261), TokenKind::kUserDefined);
  EXPECT_EQ(toy->n_tokens(), 265);
}

TEST(Bpe, AnyTextComesBack) {
  const auto toy = test::load(test::byte_level().writer("gpt2", "llama-bpe"));
  for (const std::string text :
       {"hello w \xED\x95\x9C\xF0\x9F\x98\x80\n\n", "\x01\x7F\t<tool><s>"}) {
    EXPECT_EQ(decode(*toy, toy->encode(text, {}), false), text);
  }
  EXPECT_EQ(decode(*toy, toy->encode("a\xFFz", {}), false), "a\xEF\xBF\xBDz");
}

TEST(Bpe, LongWordsMergeAsShortOnesDo) {
  const auto toy = test::load(test::byte_level().writer("gpt2", "gpt-2"));
  std::string text;
  std::vector<TokenId> ids;
  for (int i = 0; i < 100000; ++i) {
    text += i % 3 == 0 ? "hello" : "ll";
    ids.push_back(i % 3 == 0 ? 259 : 257);
  }
  EXPECT_EQ(toy->encode(text, {}), ids);
}

TEST(Bpe, ManyThreadsGetTheSameIds) {
  const auto toy = test::load(test::byte_level().writer("gpt2", "gpt-2"));
  const std::string text = "hello w hell hel he wh ll l hello";
  std::vector<std::vector<TokenId>> ids(4);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : ids) threads.emplace_back([&] { mine = toy->encode(text, {}); });
  }
  for (const auto& mine : ids) EXPECT_EQ(mine, toy->encode(text, {}));
}

TEST(Bpe, RulesOverUnknownTokensAreSkipped) {
  auto vocab = test::byte_level();
  vocab.merges.insert(vocab.merges.begin(), "zzzzq qzzzz");
  vocab.merges.push_back("w h");  // its result is no token
  const auto toy = test::load(vocab.writer("gpt2", "gpt-2"));
  ASSERT_TRUE(toy.tokenizer) << toy.error();
  EXPECT_THAT(toy->encode("hello", {}), ElementsAre(259));
  EXPECT_THAT(toy->encode("wh", {}), ElementsAre('w', 'h'));
}

std::string refusal(const gguf::Writer& writer) {
  const auto loaded = test::load(writer);
  EXPECT_FALSE(loaded.tokenizer);
  if (!loaded.tokenizer) {
    EXPECT_EQ(loaded.tokenizer.error().kind, ErrorKind::kRefused);
  }
  return loaded.error();
}

TEST(Bpe, BrokenVocabulariesAreRefusedByKey) {
  const auto base = [] { return test::byte_level().writer("gpt2", "gpt-2"); };
  EXPECT_THAT(refusal(test::byte_level().writer("gpt2", "no-such-rule")),
              HasSubstr("no-such-rule"));
  EXPECT_THAT(refusal(test::byte_level().writer("gpt2", "")), HasSubstr("tokenizer.ggml.pre"));
  EXPECT_THAT(refusal(test::byte_level().writer("t5", "")), HasSubstr("t5"));
  EXPECT_THAT(refusal(base().erase("tokenizer.ggml.model")), HasSubstr("tokenizer.ggml.model"));
  EXPECT_THAT(refusal(base().erase("tokenizer.ggml.tokens")), HasSubstr("tokenizer.ggml.tokens"));
  EXPECT_THAT(refusal(base().set("tokenizer.ggml.tokens", "text")),
              HasSubstr("tokenizer.ggml.tokens"));
  EXPECT_THAT(refusal(base().erase("tokenizer.ggml.merges")), HasSubstr("tokenizer.ggml.merges"));
  EXPECT_THAT(refusal(base().set_array("tokenizer.ggml.merges", std::vector<int32_t>{1})),
              HasSubstr("tokenizer.ggml.merges"));
  EXPECT_THAT(refusal(base().set("tokenizer.ggml.bos_token_id", 265U)),
              HasSubstr("tokenizer.ggml.bos_token_id"));
  EXPECT_THAT(refusal(base().set("tokenizer.ggml.eot_token_id", UINT32_MAX)),
              HasSubstr("tokenizer.ggml.eot_token_id"));
  EXPECT_THAT(refusal(base().set("tokenizer.ggml.add_bos_token", "yes")),
              HasSubstr("tokenizer.ggml.add_bos_token"));
  EXPECT_THAT(refusal(base().set_array("tokenizer.ggml.token_type", std::vector<int32_t>{1})),
              HasSubstr("tokenizer.ggml.token_type"));
  EXPECT_THAT(refusal(base().set_array("tokenizer.ggml.token_type", std::vector<int32_t>(265, 9))),
              HasSubstr("tokenizer.ggml.token_type"));
  EXPECT_THAT(refusal(base().set_array("tokenizer.ggml.token_type", std::vector<float>(265, 1))),
              HasSubstr("tokenizer.ggml.token_type"));
  EXPECT_THAT(refusal(base().set_array("tokenizer.ggml.scores", std::vector<float>{1})),
              HasSubstr("tokenizer.ggml.scores"));
  for (const char* rule : {"nospace", " x", "x ", ""}) {
    auto vocab = test::byte_level();
    vocab.merges.front() = rule;
    EXPECT_THAT(refusal(vocab.writer("gpt2", "gpt-2")), HasSubstr("tokenizer.ggml.merges[0]"))
        << rule;
  }
  auto vocab = test::byte_level();
  vocab.add(std::string(2000, 'x'), TokenKind::kControl);
  EXPECT_THAT(refusal(vocab.writer("gpt2", "gpt-2")), HasSubstr("tokenizer.ggml.tokens[265]"));
}

}  // namespace
}  // namespace ondol::tokenizer
