// Thread rule: test code, one thread. Small vocabularies of our own, written as model files in
// memory.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "gguf/writer.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/tokenizer.h"

namespace ondol::tokenizer::test {

/// A file in memory and the tokenizer that lives on it.
struct Loaded {
  std::unique_ptr<const std::string> bytes;
  Result<std::unique_ptr<const Tokenizer>> tokenizer = failed("not loaded");

  const Tokenizer& operator*() const { return **tokenizer; }
  const Tokenizer* operator->() const { return tokenizer->get(); }
  std::string error() const { return tokenizer ? "" : tokenizer.error().message; }
};

inline Loaded load(std::string file_bytes) {
  Loaded loaded{.bytes = std::make_unique<const std::string>(std::move(file_bytes))};
  auto file = gguf::File::parse(std::as_bytes(std::span(*loaded.bytes)), "toy");
  if (!file) {
    loaded.tokenizer = propagate(file);
  } else {
    loaded.tokenizer = Tokenizer::load(*file);
  }
  return loaded;
}

inline Loaded load(const gguf::Writer& writer) {
  auto bytes = writer.to_bytes();
  EXPECT_TRUE(bytes) << (bytes ? "" : bytes.error().message);
  return load(std::move(*bytes));
}

/// Tokens with their kinds and, for SentencePiece, scores.
struct Toy {
  std::vector<std::string> tokens;
  std::vector<int32_t> kinds;
  std::vector<float> scores;
  std::vector<std::string> merges;

  int add(std::string text, TokenKind kind = TokenKind::kNormal, float score = 0) {
    tokens.push_back(std::move(text));
    kinds.push_back(static_cast<int32_t>(kind));
    scores.push_back(score);
    return static_cast<int>(tokens.size()) - 1;
  }
  /// A merge rule over bytes and the token that it makes.
  int merge(std::string_view left, std::string_view right) {
    std::string joined;
    append_in_byte_alphabet(joined, std::string(left).append(right));
    std::string rule;
    append_in_byte_alphabet(rule, left);
    rule.push_back(' ');
    append_in_byte_alphabet(rule, right);
    merges.push_back(rule);
    return add(joined);
  }
  gguf::Writer writer(std::string_view model, std::string_view pre) const {
    gguf::Writer out;
    out.set("general.architecture", "llama").set("tokenizer.ggml.model", model);
    if (!pre.empty()) out.set("tokenizer.ggml.pre", pre);
    out.set_strings("tokenizer.ggml.tokens", std::span<const std::string>(tokens));
    out.set_array("tokenizer.ggml.token_type", kinds);
    if (model == "llama") out.set_array("tokenizer.ggml.scores", scores);
    if (model == "gpt2")
      out.set_strings("tokenizer.ggml.merges", std::span<const std::string>(merges));
    return out;
  }
};

/// The 256 bytes (id = byte), "he", "hell", "hello", " w", a user-defined "<tool>", the control
/// tokens "<s>" and
/// "<|im_end|>", and an unused one.
inline Toy byte_level() {
  Toy toy;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    std::string text;
    append_in_byte_alphabet(text, {&c, 1});
    toy.add(text);
  }
  toy.merge("h", "e");                         // 256
  toy.merge("l", "l");                         // 257
  toy.merge("he", "ll");                       // 258
  toy.merge("hell", "o");                      // 259
  toy.merge(" ", "w");                         // 260
  toy.add("<tool>", TokenKind::kUserDefined);  // 261
  toy.add("<s>", TokenKind::kControl);         // 262
  toy.add("<|im_end|>", TokenKind::kControl);  // 263
  toy.add("[PAD]", TokenKind::kUnused);        // 264
  return toy;
}

}  // namespace ondol::tokenizer::test
