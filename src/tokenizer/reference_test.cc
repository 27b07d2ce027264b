// The vocabularies of real models against their own tokenizers' ids and texts.
#include <gtest/gtest.h>
#include <openssl/sha.h>
#include <zlib.h>

#include <algorithm>
#include <array>

#include "support/support.h"
#include "tokenizer/toy_vocab.h"

namespace ondol::tokenizer {
namespace {

using Ids = std::vector<TokenId>;
using ondol::test::kNoShared;
using ondol::test::read_json_lines;
using ondol::test::shared_path;

std::string gunzip(const std::string& path) {
  std::string out;
  gzFile in = gzopen(path.c_str(), "rb");
  if (in == nullptr) return out;
  std::array<char, 1 << 16> buffer{};
  for (int got = 0; (got = gzread(in, buffer.data(), buffer.size())) > 0;)
    out.append(buffer.data(), static_cast<size_t>(got));
  gzclose(in);
  return out;
}

test::Loaded load_vocabulary(const std::string& name) {
  return test::load(gunzip(shared_path("reference/tokenizers/vocab/" + name + ".gguf.gz")));
}

std::string sha256(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  std::string hex;
  for (const unsigned char byte : digest) {
    hex.push_back("0123456789abcdef"[byte >> 4]);
    hex.push_back("0123456789abcdef"[byte & 15]);
  }
  return hex;
}

std::string joined(const Ids& ids) {
  std::string out;
  for (const TokenId id : ids) out.append(out.empty() ? "" : ",").append(std::to_string(id));
  return out;
}

class Reference : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (shared_path("reference/tokenizers").empty()) GTEST_SKIP() << kNoShared;
    loaded_ = load_vocabulary(GetParam());
    ASSERT_TRUE(loaded_.tokenizer) << loaded_.error();
  }
  void check_ids() const;
  void check_special_tokens_around() const;
  void check_decoding() const;
  void check_finding() const;
  test::Loaded loaded_;
};

TEST_P(Reference, Agrees) {
  check_ids();
  check_special_tokens_around();
  check_decoding();
  check_finding();
}

void Reference::check_ids() const {
  for (const auto& line :
       read_json_lines(shared_path(std::string("reference/tokenizers/") + GetParam() + ".jsonl"))) {
    const std::string_view text = line.at("text").as_string();
    EXPECT_EQ(loaded_->encode(text, {}), boost::json::value_to<Ids>(line.at("ids")))
        << line.at("id").as_string();
    EXPECT_EQ(loaded_->encode(text, {.parse_special = true}),
              boost::json::value_to<Ids>(line.at("ids_special")))
        << line.at("id").as_string();
  }
}

void Reference::check_special_tokens_around() const {
  const auto list = boost::json::parse(
      ondol::test::read_file(shared_path("reference/tokenizers/tokenizers.json")));
  for (const auto& entry : list.as_array()) {
    if (entry.at("name").as_string() != GetParam()) continue;
    Ids expected = boost::json::value_to<Ids>(entry.at("add_special").at("prefix"));
    const Ids text = loaded_->encode("Some text", {});
    expected.insert(expected.end(), text.begin(), text.end());
    for (const TokenId id : boost::json::value_to<Ids>(entry.at("add_special").at("suffix")))
      expected.push_back(id);
    EXPECT_EQ(loaded_->encode("Some text", {.add_special = true}), expected);
    EXPECT_EQ(loaded_->n_tokens(), entry.at("n_tokens").as_int64());
  }
}

// As a whole text would be decoded: SentencePiece's first space belongs to the tokenizer.
bool strips_first_space(std::string_view name) { return name == "llama-spm" || name == "phi-3"; }

void Reference::check_decoding() const {
  const std::string path =
      shared_path(std::string("reference/tokenizers/") + GetParam() + ".decode.jsonl");
  if (path.empty()) return;  // an encoder: nothing to decode
  for (const auto& line : read_json_lines(path)) {
    SCOPED_TRACE(std::string(line.at("id").as_string()));
    const Ids ids = boost::json::value_to<Ids>(line.at("ids"));
    const bool malformed = line.contains("malformed");
    Utf8Stream stream;
    std::string text;
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(loaded_->piece(ids[i], true),
                ondol::test::from_hex(std::string_view(line.at("pieces").at(i).as_string())));
      const std::string step = stream.push(loaded_->piece(ids[i], true));
      if (!malformed) {
        EXPECT_EQ(step, std::string_view(line.at("steps").at(i).as_string()));
      }
      text += step;
    }
    text += stream.flush();
    EXPECT_EQ(text, std::string_view(line.at("text").as_string()));
    EXPECT_EQ(decode(*loaded_, ids, true), text);
    if (malformed) continue;  // there the whole-list decoding may count U+FFFD by byte tokens
    std::string plain = decode(*loaded_, ids, false);
    if (strips_first_space(GetParam()) && plain.starts_with(' ')) plain.erase(0, 1);
    EXPECT_EQ(plain, std::string_view(line.at("text_no_special").as_string()));
  }
}

void Reference::check_finding() const {
  for (TokenId id = 0; id < loaded_->n_tokens(); id += 997) {
    const auto found = loaded_->find(loaded_->token_text(id));
    ASSERT_TRUE(found) << id;
    EXPECT_EQ(loaded_->token_text(*found), loaded_->token_text(id));
  }
}

std::string test_name(const testing::TestParamInfo<const char*>& vocabulary) {
  std::string name = vocabulary.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Vocabulary, Reference,
                         testing::Values("bert-bge", "deepseek-coder", "deepseek-llm",
                                         "deepseek-v3", "falcon", "gemma3", "gpt-2", "gpt-oss",
                                         "llama-spm", "llama3", "phi-3", "qwen3", "smollm2",
                                         "starcoder", "tekken"),
                         test_name);

std::string case_text(const boost::json::object& input) {
  if (input.contains("text")) return std::string(input.at("text").as_string());
  std::string text;
  for (int64_t i = 0; i < input.at("count").as_int64(); ++i)
    text += std::string_view(input.at("repeat").as_string());
  return text;
}

void check_case(const Tokenizer& tokenizer, const boost::json::object& line) {
  SCOPED_TRACE(std::string(line.at("id").as_string()));
  const auto& input = line.at("input").as_object();
  const auto& expected = line.at("expected").as_object();
  const std::string text = case_text(input);
  const Ids ids = tokenizer.encode(text, {.add_special = input.at("add_special").as_bool(),
                                          .parse_special = input.at("parse_special").as_bool()});
  if (expected.contains("ids")) {
    EXPECT_EQ(ids, boost::json::value_to<Ids>(expected.at("ids")));
  }
  if (expected.contains("detokenized")) {
    EXPECT_EQ(decode(tokenizer, ids, true),
              std::string_view(expected.at("detokenized").as_string()));
  }
  if (!expected.contains("ids_sha256")) return;
  EXPECT_EQ(static_cast<int64_t>(ids.size()), expected.at("n_ids").as_int64());
  EXPECT_EQ(sha256(joined(ids)), std::string_view(expected.at("ids_sha256").as_string()));
  EXPECT_EQ(decode(tokenizer, ids, true), text);
}

TEST(ReferenceCases, Smollm2) {
  const std::string path = shared_path("cases/tokenize_smollm2.jsonl");
  if (path.empty()) GTEST_SKIP() << kNoShared;
  const auto loaded = load_vocabulary("smollm2");
  ASSERT_TRUE(loaded.tokenizer) << loaded.error();
  for (const auto& line : read_json_lines(path)) check_case(*loaded, line);
}

TEST(ReferenceCases, Gemma3) {
  const std::string path = shared_path("cases/tokenize_gemma3.jsonl");
  if (path.empty()) GTEST_SKIP() << kNoShared;
  const auto loaded = load_vocabulary("gemma3");
  ASSERT_TRUE(loaded.tokenizer) << loaded.error();
  for (const auto& line : read_json_lines(path)) check_case(*loaded, line);
}

TEST(ReferenceCases, RenderedPrompts) {
  const std::string path = shared_path("cases/prompt_ids_smollm2.jsonl");
  if (path.empty()) GTEST_SKIP() << kNoShared;
  const auto loaded = load_vocabulary("smollm2");
  ASSERT_TRUE(loaded.tokenizer) << loaded.error();
  for (const auto& line : read_json_lines(path)) {
    const auto& expected = line.at("expected").as_object();
    bool text_holds_markers =
        false;  // there the template's and the message's letters must be told apart first
    for (const auto& message : line.at("input").at("messages").as_array()) {
      text_holds_markers |=
          std::string_view(message.at("content").as_string()).find("<|") != std::string_view::npos;
    }
    if (text_holds_markers) continue;
    EXPECT_EQ(loaded->encode(std::string_view(expected.at("rendered").as_string()),
                             {.parse_special = true}),
              boost::json::value_to<Ids>(expected.at("ids")))
        << line.at("id").as_string();
  }
}

}  // namespace
}  // namespace ondol::tokenizer
