#include "tokenizer/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "support/support.h"
#include "tokenizer/normalize.h"
#include "tokenizer/pre_rules.h"
#include "tokenizer/utf8.h"

namespace ondol::tokenizer {
namespace {

class Collector final : public Splitter::Sink {
 public:
  void piece(std::string_view text) override { pieces.emplace_back(text); }
  std::vector<std::string> pieces;
};

enum class Form { kAsTheRuleSays, kAsItIs };

std::vector<std::string> split(std::string_view pre, std::string_view text,
                               Form form = Form::kAsTheRuleSays) {
  const PreRule* rule = find_pre_rule(pre);
  EXPECT_NE(rule, nullptr) << pre;
  auto splitter = Splitter::make(rule->patterns);
  if (!splitter) throw std::runtime_error(splitter.error().message);
  Splitter::Session session;
  Collector collector;
  splitter->split(rule->nfc && form == Form::kAsTheRuleSays ? to_nfc(text) : std::string(text),
                  session, collector);
  return collector.pieces;
}

constexpr std::string_view kAllRules[] = {"a.x-4.0",        "bailingmoe",   "bloom",
                                          "chameleon",      "chatglm-bpe",  "codeshell",
                                          "command-r",      "dbrx",         "deepseek-llm",
                                          "deepseek-coder", "deepseek-v3",  "deepseek-r1-qwen",
                                          "default",        "exaone",       "falcon",
                                          "falcon3",        "glm4",         "gpt-2",
                                          "gpt-4o",         "gpt3-finnish", "granite-docling",
                                          "grok-2",         "hunyuan",      "jais",
                                          "jina-de",        "jina-es",      "jina-v1-en",
                                          "jina-v2-code",   "jina-v2-de",   "jina-v2-es",
                                          "kimi-k2",        "lfm2",         "llama-bpe",
                                          "llama-v3",       "llama3",       "llama4",
                                          "megrez",         "mellum",       "minerva-7b",
                                          "modern-bert",    "mpt",          "olmo",
                                          "phi-2",          "pixtral",      "poro-chat",
                                          "qwen2",          "qwen35",       "refact",
                                          "roberta-bpe",    "seed-coder",   "smaug-bpe",
                                          "smollm",         "stablelm2",    "starcoder",
                                          "tekken",         "trillion",     "viking"};

TEST(Split, UnknownNamesHaveNoRule) {
  EXPECT_EQ(find_pre_rule("no-such-rule"), nullptr);
  EXPECT_EQ(find_pre_rule(""), nullptr);
}

TEST(Split, PiecesJoinedAreTheTextForEveryRule) {
  const std::string text =
      "It's 12345 o'CLOCK,\r\n\r\n  caf\xC3\xA9!! "
      "\xED\x95\x9C\xEA\xB5\xAD\xEC\x96\xB4\t\xE4\xB8\xAD\xE6\x96\x87 "
      "\xE0\xB8\x97\xE0\xB8\xB5\xE0\xB9\x88 \xF0\x9F\x98\x80 <sentinel:12> IMGIMGABZ x = {a: [1]}; "
      "  \n\x01 \xC2\xA0";
  for (const std::string_view name : kAllRules) {
    std::string joined;
    for (const std::string& piece : split(name, text)) {
      EXPECT_FALSE(piece.empty()) << name;
      joined += piece;
    }
    EXPECT_EQ(joined, text) << name;
  }
}

void expect_whole(std::string_view name, size_t size) {
  for (std::string run : {std::string(size, 'a'), std::string(size, ' '), std::string(size, '7'),
                          std::string(size, '.'), std::string(size, 'A'), std::string(size, '\n'),
                          std::string(size, ' ') + "x"}) {
    size_t bytes = 0;
    for (const std::string& piece : split(name, run)) bytes += piece.size();
    EXPECT_EQ(bytes, run.size()) << name << " on " << run[0];
  }
}

TEST(Split, LongRunsPassForEveryRule) {
  for (const std::string_view name : kAllRules) expect_whole(name, size_t{1} << 16);
  for (const std::string_view name :
       {"gpt-2", "llama-bpe", "gpt-4o", "deepseek-llm", "deepseek-v3"}) {
    expect_whole(name, size_t{1} << 20);
  }
  EXPECT_THAT(split("gpt-4o", std::string(1 << 20, 'A')), testing::SizeIs(1));
  EXPECT_THAT(split("llama-bpe", std::string(1 << 20, '7')), testing::SizeIs(((1 << 20) + 2) / 3));
}

TEST(Split, WhiteSpaceIsUnicodes) {
  // U+180E is no white space, U+3000 is.
  EXPECT_THAT(split("gpt-2", "a\xE3\x80\x80\xE3\x80\x80"),
              testing::ElementsAre("a", "\xE3\x80\x80\xE3\x80\x80"));
  EXPECT_THAT(split("gpt-2", " \xE1\xA0\x8E"), testing::ElementsAre(" \xE1\xA0\x8E"));
}

TEST(Split, HanStandsAloneForKimi) {
  EXPECT_THAT(
      split("kimi-k2",
            "ab\xE4\xB8\xAD\xE6\x96\x87"
            "cd It's 1234"),
      testing::ElementsAre("ab", "\xE4\xB8\xAD\xE6\x96\x87", "cd", " It's", " ", "123", "4"));
}

TEST(Split, ReferencePieces) {
  const std::string path = test::shared_path("reference/tokenizers/presplit.jsonl");
  if (path.empty()) GTEST_SKIP() << test::kNoShared;
  for (const auto& line : test::read_json_lines(path)) {
    for (const auto& [pre, pieces] : line.at("pieces").as_object()) {
      EXPECT_EQ(split(std::string_view(pre), std::string_view(line.at("text").as_string())),
                boost::json::value_to<std::vector<std::string>>(pieces))
          << line.at("id").as_string() << " " << pre;
    }
  }
}

TEST(Split, Cases) {
  const std::string path = test::shared_path("cases/presplit.jsonl");
  if (path.empty()) GTEST_SKIP() << test::kNoShared;
  for (const auto& line : test::read_json_lines(path)) {
    for (const auto& [pre, pieces] : line.at("expected").as_object()) {
      EXPECT_EQ(split(std::string_view(pre),
                      std::string_view(line.at("input").at("text").as_string()), Form::kAsItIs),
                boost::json::value_to<std::vector<std::string>>(pieces))
          << line.at("id").as_string() << " " << pre;
    }
  }
}

}  // namespace
}  // namespace ondol::tokenizer
