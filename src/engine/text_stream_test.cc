#include "engine/text_stream.h"

#include <gtest/gtest.h>

#include <utility>

#include "support/support.h"

namespace ondol::engine {
namespace {

/// A vocabulary whose tokens are the pieces of a case, by their number.
class PieceTokenizer final : public tokenizer::Tokenizer {
 public:
  using Id = tokenizer::TokenId;
  explicit PieceTokenizer(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
  std::vector<Id> encode(std::string_view, tokenizer::EncodeOptions) const override { return {}; }
  std::string_view piece(Id id, bool) const override { return pieces_[static_cast<size_t>(id)]; }
  std::string_view model() const override { return "pieces"; }
  std::string_view pre() const override { return ""; }
  int n_tokens() const override { return static_cast<int>(pieces_.size()); }
  tokenizer::TokenKind kind(Id) const override { return tokenizer::TokenKind::kNormal; }
  std::string_view token_text(Id id) const override { return piece(id, true); }
  std::optional<Id> find(std::string_view) const override { return std::nullopt; }
  std::optional<Id> bos() const override { return std::nullopt; }
  std::optional<Id> eos() const override { return std::nullopt; }
  bool add_bos() const override { return false; }
  bool add_eos() const override { return false; }
  bool is_end(Id) const override { return false; }

 private:
  std::vector<std::string> pieces_;
};

using Texts = std::vector<std::string>;

Texts texts(const boost::json::value& list) {
  Texts out;
  for (const auto& one : list.as_array()) out.emplace_back(one.as_string());
  return out;
}

TEST(TextStream, SharedStopCases) {
  const std::string path = test::shared_path("cases/stop_strings.jsonl");
  if (path.empty()) GTEST_SKIP() << test::kNoShared;
  int n = 0;
  for (const auto& one : test::read_json_lines(path)) {
    SCOPED_TRACE(std::string(one.at("id").as_string()));
    const auto& input = one.at("input").as_object();
    const auto& expected = one.at("expected").as_object();
    const PieceTokenizer tokenizer(texts(input.at("pieces")));
    auto stream = TextStream::make(tokenizer, texts(input.at("stop")), false);
    if (!stream) {  // a refusal, where the case allows it
      EXPECT_TRUE(expected.contains("also_fine")) << stream.error().message;
      continue;
    }
    std::string out;
    size_t used = 0;
    const Texts emitted = texts(expected.at("emitted_after_each_piece"));
    for (int id = 0; id < tokenizer.n_tokens() && !stream->stopped(); ++id) {
      out += stream->push(id);
      ASSERT_LT(used, emitted.size());
      EXPECT_EQ(out, emitted[used]) << "after piece " << used;
      ++used;
    }
    out += stream->finish();
    EXPECT_EQ(out, expected.at("text").as_string());
    EXPECT_EQ(used, expected.at("pieces_used").to_number<size_t>());
    EXPECT_EQ(stream->stopped(), input.at("end").as_string() == "stop_match");
    ++n;
  }
  EXPECT_GE(n, 20);
}

TEST(TextStream, SharedUtf8Cases) {
  const std::string path = test::shared_path("cases/utf8_streaming.jsonl");
  if (path.empty()) GTEST_SKIP() << test::kNoShared;
  int n = 0;
  for (const auto& one : test::read_json_lines(path)) {
    SCOPED_TRACE(std::string(one.at("id").as_string()));
    const auto& expected = one.at("expected").as_object();
    Texts pieces;
    for (const auto& hex : texts(one.at("input").at("pieces_hex")))
      pieces.push_back(test::from_hex(hex));
    const PieceTokenizer tokenizer(pieces);
    auto stream = TextStream::make(tokenizer, {}, false);
    ASSERT_TRUE(stream);
    const Texts deltas = texts(expected.at("delta_after_each_piece"));
    std::string out;
    for (int id = 0; id < tokenizer.n_tokens(); ++id) {
      const std::string delta = stream->push(id);
      EXPECT_EQ(delta, deltas[static_cast<size_t>(id)]);
      out += delta;
    }
    const std::string tail = stream->finish();
    EXPECT_EQ(tail, expected.at("tail_at_end").as_string());
    EXPECT_EQ(out + tail, expected.at("text").as_string());
    ++n;
  }
  EXPECT_GE(n, 22);
}

TEST(TextStream, AStopTextInLettersThatComeInParts) {
  const PieceTokenizer tokenizer({"a\xC3", "\xA9", "b", "\xE2\x82"});
  auto stream = TextStream::make(tokenizer, {"\u00E9b"}, false);
  ASSERT_TRUE(stream);
  EXPECT_EQ(stream->push(0), "a");
  EXPECT_EQ(stream->push(1), "") << "what could become the stop text is held back";
  EXPECT_EQ(stream->push(2), "");
  EXPECT_TRUE(stream->stopped());
  EXPECT_EQ(stream->push(3), "");
  EXPECT_EQ(stream->finish(), "");
}

TEST(TextStream, Refusals) {
  const PieceTokenizer tokenizer({"a"});
  for (const Texts& stops : {Texts{""}, Texts{"ok", "\xFF"}, Texts(65, "x")}) {
    const auto stream = TextStream::make(tokenizer, stops, false);
    ASSERT_FALSE(stream);
    EXPECT_EQ(stream.error().kind, ErrorKind::kUsage);
  }
}

}  // namespace
}  // namespace ondol::engine
