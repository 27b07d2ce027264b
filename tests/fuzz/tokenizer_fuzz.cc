// Feeds bytes as text to toy vocabularies of each kind: byte-level BPE gives every well-formed text
// back, the others give well-formed text; and as a model file to the loader, which refuses it or
// works.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gguf/writer.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace {

using namespace ondol;
using namespace ondol::tokenizer;

void require(bool truth) {
  if (!truth) std::abort();  // libFuzzer saves the input
}

std::unique_ptr<const Tokenizer> load(const gguf::Writer& writer, std::string& bytes) {
  auto written = writer.to_bytes();
  require(written.has_value());
  bytes = std::move(*written);
  auto file = gguf::File::parse(std::as_bytes(std::span(bytes)), "toy");
  require(file.has_value());
  auto tokenizer = Tokenizer::load(*file);
  require(tokenizer.has_value());
  return std::move(*tokenizer);
}

gguf::Writer writer_of(const char* model, const char* pre, const std::vector<std::string>& tokens,
                       const std::vector<int32_t>& kinds) {
  gguf::Writer writer;
  writer.set("general.architecture", "llama")
      .set("tokenizer.ggml.model", model)
      .set("tokenizer.ggml.pre", pre);
  writer.set_strings("tokenizer.ggml.tokens", std::span<const std::string>(tokens));
  writer.set_array("tokenizer.ggml.token_type", kinds);
  return writer;
}

gguf::Writer byte_level(const char* pre) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    append_in_byte_alphabet(tokens.emplace_back(), {&c, 1});
  }
  const std::vector<std::string> merges = {"a b", "ab ab", "abab abab", "c c", "\xC4\xA0 a", "0 0"};
  for (const char* token : {"ab", "abab", "abababab", "cc", "\xC4\xA0\x61", "00"})
    tokens.emplace_back(token);
  std::vector<int32_t> kinds(tokens.size(), 1);
  for (const char* token : {"<s>", "<s><s>", "\n\n"}) {
    tokens.emplace_back(token);
    kinds.push_back(tokens.size() % 2 == 0 ? 3 : 4);
  }
  auto writer = writer_of("gpt2", pre, tokens, kinds);
  writer.set_strings("tokenizer.ggml.merges", std::span<const std::string>(merges));
  return writer;
}

gguf::Writer sentence_piece() {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> kinds = {2, 3, 3};
  for (unsigned byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    tokens.emplace_back(text);
    kinds.push_back(6);
  }
  const std::string mark(kSpaceMark);
  for (const std::string& token :
       {mark, mark + "a", mark + mark, std::string("ab"), std::string("aba"), "b" + mark}) {
    tokens.push_back(token);
    kinds.push_back(1);
  }
  tokens.emplace_back("   ");
  kinds.push_back(4);
  std::vector<float> scores;
  for (size_t i = 0; i < tokens.size(); ++i) scores.push_back(-static_cast<float>(i % 7));
  auto writer = writer_of("llama", "", tokens, kinds);
  writer.set_array("tokenizer.ggml.scores", scores).set("tokenizer.ggml.add_space_prefix", false);
  return writer;
}

gguf::Writer word_piece() {
  return writer_of("bert", "", {"[UNK]", "[CLS]", "[SEP]", "a", "##b", "ab", ","},
                   {3, 3, 3, 1, 1, 1, 1});
}

struct Toys {
  std::string bytes[5];
  std::unique_ptr<const Tokenizer> exact[3] = {load(byte_level("llama-bpe"), bytes[0]),
                                               load(byte_level("smollm"), bytes[1]),
                                               load(byte_level("deepseek-v3"), bytes[2])};
  std::unique_ptr<const Tokenizer> spm = load(sentence_piece(), bytes[3]);
  std::string wordpiece_bytes;
  std::unique_ptr<const Tokenizer> wordpiece = load(word_piece(), wordpiece_bytes);
};

void try_text(std::string_view text) {
  static const Toys toys;
  const std::string well_formed = replace_ill_formed(text);
  for (const bool trusted : {false, true}) {
    const EncodeOptions options{.parse_special = trusted};
    for (const auto& tokenizer : toys.exact) {
      require(decode(*tokenizer, tokenizer->encode(text, options), true) == well_formed);
    }
    const auto ids = toys.spm->encode(text, options);
    Utf8Stream stream;
    for (const TokenId id : ids) require(is_valid_utf8(stream.push(toys.spm->piece(id, true))));
    require(is_valid_utf8(stream.flush()));
    for (const TokenId id : toys.wordpiece->encode(text, options))
      require(id >= 0 && id < toys.wordpiece->n_tokens());
  }
}

void try_file(std::span<const std::byte> bytes) {
  auto file = gguf::File::parse(bytes, "fuzz");
  if (!file) return;
  auto tokenizer = Tokenizer::load(*file);
  if (!tokenizer) return;
  for (const TokenId id :
       (*tokenizer)->encode("Some text,  12 <s>\n", {.add_special = true, .parse_special = true})) {
    require(id >= 0 && id < (*tokenizer)->n_tokens());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try_text({reinterpret_cast<const char*>(data), size});
  try_file(std::as_bytes(std::span(data, size)));
  return 0;
}
