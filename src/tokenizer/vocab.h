// Thread rule: filled by one thread, then read by any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "tokenizer/tokenizer.h"

namespace ondol::tokenizer {

/// A model file's vocabulary, checked, with the rules about ids. Everything points into the file or
/// into `arena`.
struct Vocab {
  std::string_view model;  ///< tokenizer.ggml.model
  std::string_view pre;    ///< tokenizer.ggml.pre, or ""
  std::string_view architecture;
  std::vector<std::string_view> text;   ///< as the file writes each token
  std::vector<std::string_view> piece;  ///< the bytes that each token stands for
  std::vector<TokenKind> kind;
  std::vector<float> score;  ///< empty if the file has none

  std::optional<TokenId> bos, eos, unknown, cls, sep;
  std::optional<bool> add_bos, add_eos, add_sep, add_space_prefix;
  std::vector<TokenId> ends;  ///< sorted ids that end a generation

  size_t size() const { return text.size(); }

  Vocab() = default;
  Vocab(const Vocab&) = delete;
  Vocab& operator=(const Vocab&) = delete;

  std::string arena;  ///< owns pieces that differ from their text
};

/// Models that write() and find() differ for: how a token's text turns into bytes.
enum class Spelling : uint8_t {
  kByteAlphabet,  ///< byte-level BPE
  kSpaceMark,     ///< SentencePiece: U+2581 is a space, <0xAB> a byte
  kWordPiece,     ///< "##ing" continues a word; so does "ing" where the words begin with U+2581
};

/// Reads tokenizer.ggml.* of `file`, which must outlive `vocab`. kRefused names the key at fault.
Result<void> read_vocab(const gguf::File& file, Vocab& vocab);

/// Fills `piece` from `text`.
void spell_pieces(Vocab& vocab, Spelling spelling);

/// The strings of an array of strings under `key`; empty if it is absent.
Result<const gguf::Array*> string_array(const gguf::File& file, std::string_view key);

/// The token with this text: a scan, for what no map holds.
std::optional<TokenId> scan_for(const Vocab& vocab, std::string_view token_text);

}  // namespace ondol::tokenizer
