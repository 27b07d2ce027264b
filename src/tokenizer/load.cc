#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tokenizer/added_tokens.h"
#include "tokenizer/model.h"
#include "tokenizer/utf8.h"
#include "tokenizer/vocab.h"

namespace ondol::tokenizer {
namespace {

constexpr size_t kLongestAdded =
    1024;  // bytes; bounds the work that one position of a text can cause

class FileTokenizer final : public Tokenizer {
 public:
  explicit FileTokenizer(const gguf::File& file) : file_(file) {}

  Result<void> build();

  std::vector<TokenId> encode(std::string_view text, EncodeOptions options) const override;
  std::string_view piece(TokenId id, bool special) const override;
  std::string_view model() const override { return vocab_.model; }
  std::string_view pre() const override { return vocab_.pre; }
  int n_tokens() const override { return static_cast<int>(vocab_.size()); }
  TokenKind kind(TokenId id) const override {
    return known(id) ? vocab_.kind[index(id)] : TokenKind::kUnused;
  }
  std::string_view token_text(TokenId id) const override {
    return known(id) ? vocab_.text[index(id)] : std::string_view();
  }
  std::optional<TokenId> find(std::string_view token_text) const override;
  std::optional<TokenId> bos() const override { return vocab_.bos; }
  std::optional<TokenId> eos() const override { return vocab_.eos; }
  bool add_bos() const override { return add_bos_ && vocab_.bos.has_value(); }
  bool add_eos() const override { return add_eos_ && vocab_.eos.has_value(); }
  bool is_end(TokenId id) const override {
    return std::binary_search(vocab_.ends.begin(), vocab_.ends.end(), id);
  }

 private:
  static size_t index(TokenId id) { return static_cast<size_t>(id); }
  bool known(TokenId id) const { return id >= 0 && index(id) < vocab_.size(); }

  Result<void> build_bpe();
  Result<void> build_spm();
  Result<void> build_wordpiece();
  Result<void> collect_added();
  AddedTokens::Entry entry_for(TokenId id) const;
  void encode_parts(std::string_view text, const AddedTokens& added,
                    std::vector<TokenId>& out) const;

  gguf::File file_;  // keeps the mapping that the vocabulary points into
  Vocab vocab_;
  std::unique_ptr<Model> model_;
  AddedTokens always_;   // what even untrusted text turns into ids
  AddedTokens trusted_;  // and with control tokens
  std::vector<std::string> mark_runs_;
  bool add_bos_ = false;
  bool add_eos_ = false;
};

Result<void> FileTokenizer::build() {
  if (auto read = read_vocab(file_, vocab_); !read) return read;
  Result<void> built;
  if (vocab_.model == "gpt2") {
    built = build_bpe();
  } else if (vocab_.model == "llama") {
    built = build_spm();
  } else if (vocab_.model == "bert") {
    built = build_wordpiece();
  } else if (vocab_.model.empty()) {
    return refused(
        "tokenizer.ggml.model is missing: the file does not say how its vocabulary works.");
  } else {
    return refused(fmt::format(
        "tokenizer.ggml.model \"{}\" is not supported; gpt2, llama and bert are.", vocab_.model));
  }
  if (!built) return built;
  add_bos_ = vocab_.add_bos.value_or(add_bos_);
  add_eos_ = vocab_.add_eos.value_or(add_eos_);
  return collect_added();
}

Result<void> FileTokenizer::build_bpe() {
  if (vocab_.pre.empty()) {
    return refused(
        "tokenizer.ggml.pre is missing: the file does not say how text is split into words, which "
        "decides "
        "the ids; convert the model again with a current converter.");
  }
  const PreRule* rule = find_pre_rule(vocab_.pre);
  if (rule == nullptr) {
    return refused(fmt::format(
        "tokenizer.ggml.pre \"{}\" is not a known way to split text into words, and guessing "
        "would give wrong ids; this version cannot run the model.",
        vocab_.pre));
  }
  add_bos_ = rule->adds_bos;
  spell_pieces(vocab_, Spelling::kByteAlphabet);
  auto model = make_bpe(file_, vocab_, *rule);
  if (!model) return propagate(model);
  model_ = std::move(*model);
  return {};
}

Result<void> FileTokenizer::build_spm() {
  // SentencePiece's own defaults where the file is silent.
  const auto fallback = [&](std::optional<TokenId>& id, TokenId usual) {
    if (!id && index(usual) < vocab_.size()) id = usual;
  };
  fallback(vocab_.unknown, 0);
  fallback(vocab_.bos, 1);
  fallback(vocab_.eos, 2);
  add_bos_ = true;
  spell_pieces(vocab_, Spelling::kSpaceMark);
  auto model = make_spm(vocab_);
  if (!model) return propagate(model);
  model_ = std::move(*model);
  return {};
}

Result<void> FileTokenizer::build_wordpiece() {
  const auto fallback = [&](std::optional<TokenId>& id, std::string_view text) {
    if (!id) id = scan_for(vocab_, text);
  };
  fallback(vocab_.unknown, "[UNK]");
  fallback(vocab_.cls, "[CLS]");
  fallback(vocab_.sep, "[SEP]");
  if (!vocab_.bos) vocab_.bos = vocab_.cls;
  if (!vocab_.eos) vocab_.eos = vocab_.sep;
  add_bos_ = true;
  add_eos_ = true;
  spell_pieces(vocab_, Spelling::kWordPiece);
  auto model = make_wordpiece(vocab_);
  if (!model) return propagate(model);
  model_ = std::move(*model);
  return {};
}

AddedTokens::Entry FileTokenizer::entry_for(TokenId id) const {
  AddedTokens::Entry entry{.text = vocab_.text[index(id)], .id = id};
  // Phi-3's tokenizer lets its tokens take the white space that follows; the format has no field
  // for that.
  if (vocab_.model == "llama" && vocab_.architecture == "phi3") {
    static constexpr std::array<std::string_view, 3> kPlain = {"<unk>", "<s>", "<|endoftext|>"};
    entry.takes_space_after = std::find(kPlain.begin(), kPlain.end(), entry.text) == kPlain.end();
  }
  // The same for the mask of the RoBERTa family and the white space before it.
  entry.takes_space_before =
      entry.text == "<mask>" && (vocab_.pre == "roberta-bpe" || vocab_.pre.starts_with("jina-"));
  return entry;
}

Result<void> FileTokenizer::collect_added() {
  std::vector<AddedTokens::Entry> always;
  std::vector<AddedTokens::Entry> trusted;
  std::vector<TokenId> runs;
  for (size_t i = 0; i < vocab_.size(); ++i) {
    const TokenKind kind = vocab_.kind[i];
    const bool user = kind == TokenKind::kUserDefined;
    if (!user && kind != TokenKind::kControl && kind != TokenKind::kUnknown) continue;
    if (vocab_.text[i].size() > kLongestAdded) {
      return refused(fmt::format(
          "tokenizer.ggml.tokens[{}] is a special token of {} bytes; at most {} are supported.", i,
          vocab_.text[i].size(), kLongestAdded));
    }
    const auto id = static_cast<TokenId>(i);
    trusted.push_back(entry_for(id));
    if (!user) continue;
    always.push_back(entry_for(id));
    const bool spaces = vocab_.text[i].find_first_not_of(' ') == std::string_view::npos;
    if (vocab_.model == "llama" && spaces) runs.push_back(id);
  }
  // A run of spaces may also be written with literal U+2581: to SentencePiece the two are one
  // character.
  mark_runs_.reserve(runs.size());
  for (const TokenId id : runs) {
    std::string& marks = mark_runs_.emplace_back();
    for (size_t k = 0; k < vocab_.text[index(id)].size(); ++k) marks.append(kSpaceMark);
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    always.push_back({.text = mark_runs_[i], .id = runs[i]});
    trusted.push_back({.text = mark_runs_[i], .id = runs[i]});
  }
  always_ = AddedTokens(std::move(always));
  trusted_ = AddedTokens(std::move(trusted));
  return {};
}

void FileTokenizer::encode_parts(std::string_view text, const AddedTokens& added,
                                 std::vector<TokenId>& out) const {
  size_t done = 0;
  while (const auto match = added.find(text, done)) {
    std::string_view before = text.substr(done, match->begin - done);
    if (match->entry->takes_space_before) before = without_space_after(before);
    if (!before.empty()) model_->encode(before, out);
    out.push_back(match->entry->id);
    done = match->end;
    if (match->entry->takes_space_after)
      done = text.size() - without_space_before(text.substr(done)).size();
  }
  if (done < text.size()) model_->encode(text.substr(done), out);
}

std::vector<TokenId> FileTokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::string repaired;
  if (!is_valid_utf8(text)) {
    repaired = replace_ill_formed(text);
    text = repaired;
  }
  std::vector<TokenId> out;
  out.reserve(text.size() / 4 + 8);
  const bool wants_bos = options.add_special && add_bos();
  if (wants_bos) out.push_back(*vocab_.bos);
  encode_parts(text, options.parse_special ? trusted_ : always_, out);
  // A template that writes the BOS itself gets one, not two.
  if (wants_bos && out.size() > 1 && out[0] == out[1]) out.erase(out.begin());
  if (options.add_special && add_eos()) {
    out.push_back(*vocab_.eos);
  } else if (options.add_special && vocab_.add_sep.value_or(false) && vocab_.sep) {
    out.push_back(*vocab_.sep);
  }
  return out;
}

std::string_view FileTokenizer::piece(TokenId id, bool special) const {
  if (!known(id)) return {};
  const TokenKind kind = vocab_.kind[index(id)];
  const bool hidden = kind == TokenKind::kControl || kind == TokenKind::kUnknown;
  return hidden && !special ? std::string_view() : vocab_.piece[index(id)];
}

std::optional<TokenId> FileTokenizer::find(std::string_view token_text) const {
  if (auto id = model_->find(token_text)) return id;
  return scan_for(vocab_, token_text);
}

}  // namespace

Result<std::unique_ptr<const Tokenizer>> Tokenizer::load(const gguf::File& file) {
  auto tokenizer = std::make_unique<FileTokenizer>(file);
  if (auto built = tokenizer->build(); !built) return propagate(built);
  return tokenizer;
}

}  // namespace ondol::tokenizer
