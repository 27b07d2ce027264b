// Thread rule: a Tokenizer is immutable once loaded and may be used from any thread; a
// StreamDecoder from one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"

namespace ondol::tokenizer {

using TokenId = int32_t;

/// GGUF's tokenizer.ggml.token_type.
enum class TokenKind : uint8_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct EncodeOptions {
  bool add_special = false;  ///< put BOS/EOS (CLS/SEP) where the model wants them
  bool parse_special =
      false;  ///< control tokens written out in the text become their ids: only for trusted prompts
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Builds the tokenizer that a model file describes (tokenizer.ggml.*). kRefused names the key at
  /// fault; an unknown tokenizer.ggml.pre is refused, never guessed.
  static Result<std::unique_ptr<const Tokenizer>> load(const gguf::File& file);

  /// Text (UTF-8; ill-formed parts become U+FFFD) to ids. Time is linear in the text, whatever it
  /// holds.
  virtual std::vector<TokenId> encode(std::string_view text, EncodeOptions options) const = 0;
  /// The bytes of one token, as a stream of tokens continues with. Control tokens give their own
  /// text when `special`, else nothing. An id outside the vocabulary gives nothing.
  virtual std::string_view piece(TokenId id, bool special) const = 0;

  virtual std::string_view model() const = 0;  ///< "gpt2", "llama", "bert"
  virtual std::string_view pre() const = 0;    ///< tokenizer.ggml.pre, or ""
  /// Size of the vocabulary: ids are 0 .. n_tokens() - 1.
  virtual int n_tokens() const = 0;
  /// What the vocabulary says a token is; the id must be valid.
  virtual TokenKind kind(TokenId id) const = 0;
  virtual std::string_view token_text(TokenId id) const = 0;  ///< as the file writes it
  virtual std::optional<TokenId> find(std::string_view token_text) const = 0;
  /// The tokens that begin and end a text, if the model has them, and whether add_special adds
  /// them.
  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;
  virtual bool add_bos() const = 0;
  virtual bool add_eos() const = 0;
  /// Ends a generation: EOS, EOT and their like (<|im_end|>, <end_of_turn>, ...).
  virtual bool is_end(TokenId id) const = 0;
};

/// Turns bytes that arrive in pieces into text of whole code points; what is ill-formed becomes one
/// U+FFFD per maximal broken part (the WHATWG rule).
class Utf8Stream {
 public:
  /// The text that can be given out now.
  std::string push(std::string_view bytes);
  /// What is left at the end: U+FFFD for an unfinished code point, else nothing.
  std::string flush();

 private:
  std::string pending_;  // at most 3 bytes of an unfinished code point
};

/// Joins the pieces of `ids` and replaces what is ill-formed by U+FFFD.
std::string decode(const Tokenizer& tokenizer, std::span<const TokenId> ids, bool special);

}  // namespace ondol::tokenizer
