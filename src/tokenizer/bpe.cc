#include <fmt/format.h>

#include <array>
#include <atomic>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/merge.h"
#include "tokenizer/model.h"
#include "tokenizer/normalize.h"
#include "tokenizer/split.h"
#include "tokenizer/text_map.h"
#include "tokenizer/utf8.h"

namespace ondol::tokenizer {
namespace {

class Bpe final : public Model {
 public:
  Bpe(const Vocab& vocab, const PreRule& rule, Splitter splitter)
      : vocab_(vocab), rule_(rule), splitter_(std::move(splitter)) {}

  Result<void> build(const gguf::Array& merges);
  void encode(std::string_view text, std::vector<TokenId>& out) const override;
  std::optional<TokenId> find(std::string_view token_text) const override;

 private:
  class Encoder;
  enum Whole : uint8_t { kUnknown, kYes, kNo };

  // A merge rule on its way into the map: [begin, middle) and [middle, end) of a batch's bytes.
  struct Rule {
    uint32_t rank = 0;
    size_t begin = 0, middle = 0, end = 0;
    uint64_t left_hash = 0, right_hash = 0;
    TokenId left_id = -1, right_id = -1;
    std::string_view left(std::string_view bytes) const {
      return bytes.substr(begin, middle - begin);
    }
    std::string_view right(std::string_view bytes) const {
      return bytes.substr(middle, end - middle);
    }
    std::string_view joined(std::string_view bytes) const {
      return bytes.substr(begin, end - begin);
    }
  };
  static constexpr size_t kBatch = 64;

  Result<void> add_merges(const gguf::Array& merges);
  void add_batch(std::string_view bytes, std::vector<Rule>& batch, TokenId& last);
  TokenId find_near(std::string_view bytes, TokenId last) const;

  const Vocab& vocab_;
  const PreRule& rule_;
  Splitter splitter_;
  TextMap words_;  // plain tokens by the bytes they stand for
  MergeMap merges_;
  std::array<TokenId, 256> byte_{};
  size_t longest_ = 0;
  bool distinct_ = true;  // no two plain tokens stand for the same bytes
  // Does merging turn the bytes of token i into token i? Found out when first asked for; every
  // thread finds the same.
  std::unique_ptr<std::atomic<uint8_t>[]> whole_;
};

class Bpe::Encoder final : public Splitter::Sink {
 public:
  Encoder(const Bpe& bpe, std::vector<TokenId>& out) : bpe_(bpe), out_(out) {}

  void piece(std::string_view text) override {
    const TokenId id = text.size() <= bpe_.longest_ ? bpe_.words_.find(text) : TokenId{-1};
    if (id < 0) return merge(text);
    auto& whole = bpe_.whole_[static_cast<size_t>(id)];
    const uint8_t known =
        bpe_.rule_.whole_words_first ? uint8_t{kYes} : whole.load(std::memory_order_relaxed);
    if (known == kYes) return out_.push_back(id);
    const size_t before = out_.size();
    merge(text);
    const bool same = out_.size() == before + 1 && out_.back() == id;
    if (known == kUnknown) whole.store(same ? kYes : kNo, std::memory_order_relaxed);
  }

 private:
  void merge(std::string_view text) {
    merger_.symbols.clear();
    for (size_t i = 0; i < text.size(); ++i) {
      const auto at = static_cast<uint32_t>(i);
      merger_.symbols.push_back(
          {.begin = at, .end = at + 1, .id = bpe_.byte_[static_cast<uint8_t>(text[i])]});
    }
    merger_.run([this](const Symbol& left, const Symbol& right) {
      return left.id < 0 || right.id < 0 ? MergeMap::Merge{} : bpe_.merges_.find(left.id, right.id);
    });
    for (const Symbol& symbol : merger_.symbols) {
      if (symbol.id >= 0) {
        out_.push_back(symbol.id);
      } else if (bpe_.vocab_.unknown) {  // a byte that the vocabulary lacks
        out_.push_back(*bpe_.vocab_.unknown);
      }
    }
  }

  const Bpe& bpe_;
  std::vector<TokenId>& out_;
  Merger merger_;
};

Result<void> Bpe::build(const gguf::Array& merges) {
  size_t plain = 0;
  for (const TokenKind kind : vocab_.kind) plain += kind == TokenKind::kNormal ? 1 : 0;
  words_.reset(vocab_.piece, plain);
  for (size_t i = 0; i < vocab_.size(); ++i) {
    if (vocab_.kind[i] != TokenKind::kNormal || vocab_.piece[i].empty()) continue;
    distinct_ &= words_.insert(static_cast<TokenId>(i));
    longest_ = std::max(longest_, vocab_.piece[i].size());
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    byte_[byte] = words_.find({&c, 1});
  }
  whole_ = std::make_unique<std::atomic<uint8_t>[]>(vocab_.size());
  return add_merges(merges);
}

// The rules number twice as many as the tokens and each names three of them: they are looked up in
// batches whose memory accesses overlap.
Result<void> Bpe::add_merges(const gguf::Array& merges) {
  merges_.reset(merges.size());
  std::vector<Rule> batch;
  std::string bytes;
  TokenId last = -1;
  for (uint64_t i = 0; i < merges.size(); ++i) {
    const std::string_view text = merges.at_string(i);
    // A half may itself be a space only in a vocabulary that is not byte-level.
    const size_t space = text.find(' ', 1);
    if (space == std::string_view::npos || space + 1 >= text.size()) {
      return refused(
          fmt::format("tokenizer.ggml.merges[{}] is \"{}\": a merge rule is two token texts with a "
                      "space between them.",
                      i, text));
    }
    Rule rule{.rank = static_cast<uint32_t>(i), .begin = bytes.size()};
    if (append_from_byte_alphabet(bytes, text.substr(0, space))) {
      rule.middle = bytes.size();
      if (append_from_byte_alphabet(bytes, text.substr(space + 1))) {
        rule.end = bytes.size();
        batch.push_back(rule);
      }
    }
    if (batch.size() == kBatch || i + 1 == merges.size()) {
      add_batch(bytes, batch, last);
      batch.clear();
      bytes.clear();
    }
  }
  return {};
}

void Bpe::add_batch(std::string_view bytes, std::vector<Rule>& batch, TokenId& last) {
  for (Rule& rule : batch) {
    rule.left_hash = hash_bytes(rule.left(bytes));
    rule.right_hash = hash_bytes(rule.right(bytes));
    words_.fetch_slot(rule.left_hash);
    words_.fetch_slot(rule.right_hash);
  }
  for (const Rule& rule : batch) {
    words_.fetch_key(rule.left_hash);
    words_.fetch_key(rule.right_hash);
  }
  for (const Rule& rule : batch) {
    words_.fetch_text(rule.left_hash);
    words_.fetch_text(rule.right_hash);
  }
  for (Rule& rule : batch) {
    rule.left_id = words_.find(rule.left(bytes), rule.left_hash);
    rule.right_id = words_.find(rule.right(bytes), rule.right_hash);
    if (rule.left_id >= 0 && rule.right_id >= 0) merges_.fetch_slot(rule.left_id, rule.right_id);
  }
  for (const Rule& rule : batch) {
    if (rule.left_id < 0 || rule.right_id < 0)
      continue;  // over tokens that do not exist: it can never apply
    const TokenId result = find_near(rule.joined(bytes), last);
    if (result < 0) continue;
    merges_.insert(rule.left_id, rule.right_id, {.rank = rule.rank, .result = result});
    last = result;
  }
}

// Rules mostly stand in the order of the tokens that they make.
TokenId Bpe::find_near(std::string_view bytes, TokenId last) const {
  for (TokenId id = std::max(last, 0);
       distinct_ && id <= last + 1 && static_cast<size_t>(id) < vocab_.size(); ++id) {
    const auto i = static_cast<size_t>(id);
    if (vocab_.kind[i] == TokenKind::kNormal && vocab_.piece[i] == bytes) return id;
  }
  return words_.find(bytes);
}

void Bpe::encode(std::string_view text, std::vector<TokenId>& out) const {
  std::string normal;
  if (rule_.nfc && !is_trivially_nfc(text)) {
    normal = to_nfc(text);
    text = normal;
  }
  Splitter::Session session;
  Encoder encoder(*this, out);
  splitter_.split(text, session, encoder);
}

std::optional<TokenId> Bpe::find(std::string_view token_text) const {
  std::string bytes;
  if (!append_from_byte_alphabet(bytes, token_text)) return std::nullopt;
  const TokenId id = words_.find(bytes);
  if (id < 0 || vocab_.text[static_cast<size_t>(id)] != token_text) return std::nullopt;
  return id;
}

}  // namespace

Result<std::unique_ptr<Model>> make_bpe(const gguf::File& file, const Vocab& vocab,
                                        const PreRule& rule) {
  auto merges = string_array(file, "tokenizer.ggml.merges");
  if (!merges) return propagate(merges);
  if (*merges == nullptr)
    return refused(
        "tokenizer.ggml.merges is missing: a byte-pair vocabulary needs its merge rules.");
  if ((*merges)->size() >= UINT32_MAX)
    return refused("tokenizer.ggml.merges has more entries than ranks can number.");
  auto splitter = Splitter::make(rule.patterns);
  if (!splitter) return propagate(splitter);
  auto bpe = std::make_unique<Bpe>(vocab, rule, std::move(*splitter));
  if (auto built = bpe->build(**merges); !built) return propagate(built);
  return bpe;
}

}  // namespace ondol::tokenizer
