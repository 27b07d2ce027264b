// Thread rule: immutable once built; any thread.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "tokenizer/pre_rules.h"
#include "tokenizer/vocab.h"

namespace ondol::tokenizer {

/// How one kind of vocabulary turns plain text, free of added tokens, into ids.
class Model {
 public:
  virtual ~Model() = default;
  /// Appends the ids of `text`: well-formed UTF-8, not empty. Time is linear-log in the text.
  virtual void encode(std::string_view text, std::vector<TokenId>& out) const = 0;
  /// The plain token with this text as the file writes it, if the model's own map holds it.
  virtual std::optional<TokenId> find(std::string_view token_text) const = 0;
};

// Each needs a vocabulary that outlives it, with its pieces spelt out.

/// Byte-level byte-pair encoding ("gpt2"): Sennrich et al. 2016, over bytes as in GPT-2. Reads
/// tokenizer.ggml.merges.
Result<std::unique_ptr<Model>> make_bpe(const gguf::File& file, const Vocab& vocab,
                                        const PreRule& rule);
/// SentencePiece's byte-pair model ("llama"): the neighbours whose joint token scores best merge
/// first.
Result<std::unique_ptr<Model>> make_spm(const Vocab& vocab);
/// WordPiece ("bert"): the longest known beginning of each word, and so on.
Result<std::unique_ptr<Model>> make_wordpiece(const Vocab& vocab);

}  // namespace ondol::tokenizer
