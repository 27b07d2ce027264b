#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <bitset>
#include <deque>

#include "tokenizer/merge.h"
#include "tokenizer/model.h"
#include "tokenizer/text_map.h"
#include "tokenizer/utf8.h"

namespace ondol::tokenizer {
namespace {

// Orders floats from high to low as unsigned numbers, below UINT32_MAX.
uint32_t rank_of(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0F);  // -0 and 0 are equal
  const uint32_t ascending = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return std::min(~ascending, UINT32_MAX - 1);
}

bool is_spaces(std::string_view text) {
  return !text.empty() && text.find_first_not_of(' ') == std::string_view::npos;
}

class Spm final : public Model {
 public:
  explicit Spm(const Vocab& vocab) : vocab_(vocab) {}

  void build();
  void encode(std::string_view text, std::vector<TokenId>& out) const override;
  std::optional<TokenId> find(std::string_view token_text) const override;

 private:
  enum Whole : uint8_t { kUnknown, kYes, kNo };

  void note_marks_inside(std::string_view text);
  void encode_part(std::string_view part, Merger& merger, std::vector<TokenId>& out) const;
  void merge(std::string_view part, Merger& merger, std::vector<TokenId>& out) const;
  void put_bytes(std::string_view bytes, std::vector<TokenId>& out) const;

  const Vocab& vocab_;
  std::vector<std::string_view> keys_;  // token texts, runs of spaces written with U+2581
  std::deque<std::string> written_;     // those that had to be rewritten
  TextMap words_;
  std::vector<uint32_t> rank_;
  std::array<TokenId, 256> byte_{};
  size_t longest_ = 0;
  // Bytes before which a token may go on with U+2581. After any other byte no token spans the
  // beginning of a word, so the text falls into words that merge on their own, with the same result
  // and without a heap over the whole text.
  std::bitset<256> spans_mark_;
  std::unique_ptr<std::atomic<uint8_t>[]>
      whole_;  // as in byte-level BPE: does token i merge into itself?
};

void Spm::note_marks_inside(std::string_view text) {
  for (size_t at = text.find(kSpaceMark, 1); at != std::string_view::npos;
       at = text.find(kSpaceMark, at + 1)) {
    if (!text.substr(0, at).ends_with(kSpaceMark))
      spans_mark_.set(static_cast<uint8_t>(text[at - 1]));
  }
}

void Spm::build() {
  keys_ = vocab_.text;
  byte_.fill(-1);
  rank_.resize(vocab_.size());
  std::vector<TokenId> known;
  for (size_t i = 0; i < vocab_.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const TokenKind kind = vocab_.kind[i];
    rank_[i] = rank_of(vocab_.score[i]);
    if (kind == TokenKind::kByte && vocab_.piece[i].size() == 1)
      byte_[static_cast<uint8_t>(vocab_.piece[i][0])] = id;
    // A run of spaces is cut out of the text beforehand; spaces mixed with literal marks still have
    // to find it.
    const bool run = kind == TokenKind::kUserDefined && is_spaces(vocab_.text[i]);
    if (run) {
      std::string& marks = written_.emplace_back();
      for (size_t k = 0; k < vocab_.text[i].size(); ++k) marks.append(kSpaceMark);
      keys_[i] = marks;
    }
    if (!run && (kind != TokenKind::kNormal || keys_[i].empty())) continue;
    known.push_back(id);
    longest_ = std::max(longest_, keys_[i].size());
    note_marks_inside(keys_[i]);
  }
  words_.reset(keys_, known.size());
  for (const TokenId id : known) words_.insert(id);
  whole_ = std::make_unique<std::atomic<uint8_t>[]>(vocab_.size());
}

void Spm::encode(std::string_view text, std::vector<TokenId>& out) const {
  std::string marked;
  marked.reserve(text.size() + text.size() / 2 + kSpaceMark.size());
  if (vocab_.add_space_prefix.value_or(true)) marked.append(kSpaceMark);
  for (const char c : text) {
    if (c == ' ') {
      marked.append(kSpaceMark);
    } else {
      marked.push_back(c);
    }
  }
  Merger merger;
  const std::string_view all = marked;
  size_t begin = 0;
  for (size_t at = all.find(kSpaceMark); at != std::string_view::npos;
       at = all.find(kSpaceMark, at + kSpaceMark.size())) {
    if (at == begin || all.substr(begin, at - begin).ends_with(kSpaceMark)) continue;
    if (spans_mark_[static_cast<uint8_t>(all[at - 1])]) continue;
    encode_part(all.substr(begin, at - begin), merger, out);
    begin = at;
  }
  encode_part(all.substr(begin), merger, out);
}

void Spm::encode_part(std::string_view part, Merger& merger, std::vector<TokenId>& out) const {
  const TokenId id = part.size() <= longest_ ? words_.find(part) : TokenId{-1};
  if (id < 0) return merge(part, merger, out);
  auto& whole = whole_[static_cast<size_t>(id)];
  const uint8_t known = whole.load(std::memory_order_relaxed);
  if (known == kYes) return out.push_back(id);
  const size_t before = out.size();
  merge(part, merger, out);
  const bool same = out.size() == before + 1 && out.back() == id;
  if (known == kUnknown) whole.store(same ? kYes : kNo, std::memory_order_relaxed);
}

void Spm::merge(std::string_view part, Merger& merger, std::vector<TokenId>& out) const {
  merger.symbols.clear();
  for (size_t at = 0; at < part.size();) {
    const uint32_t length = next_code_point(part.substr(at)).length;
    const auto begin = static_cast<uint32_t>(at);
    merger.symbols.push_back(
        {.begin = begin, .end = begin + length, .id = words_.find(part.substr(at, length))});
    at += length;
  }
  merger.run([&](const Symbol& left, const Symbol& right) {
    if (right.end - left.begin > longest_) return MergeMap::Merge{};
    const TokenId id = words_.find(part.substr(left.begin, right.end - left.begin));
    return id < 0 ? MergeMap::Merge{}
                  : MergeMap::Merge{.rank = rank_[static_cast<size_t>(id)], .result = id};
  });
  for (const Symbol& symbol : merger.symbols) {
    if (symbol.id >= 0) {
      out.push_back(symbol.id);
    } else {
      put_bytes(part.substr(symbol.begin, symbol.end - symbol.begin), out);
    }
  }
}

// A character that is no token: its bytes, or the unknown token where the vocabulary has no bytes.
void Spm::put_bytes(std::string_view bytes, std::vector<TokenId>& out) const {
  const bool all = std::all_of(bytes.begin(), bytes.end(),
                               [&](char c) { return byte_[static_cast<uint8_t>(c)] >= 0; });
  if (all) {
    for (const char c : bytes) out.push_back(byte_[static_cast<uint8_t>(c)]);
  } else if (vocab_.unknown) {
    out.push_back(*vocab_.unknown);
  }
}

std::optional<TokenId> Spm::find(std::string_view token_text) const {
  const TokenId id = words_.find(token_text);
  if (id < 0 || vocab_.text[static_cast<size_t>(id)] != token_text) return std::nullopt;
  return id;
}

}  // namespace

Result<std::unique_ptr<Model>> make_spm(const Vocab& vocab) {
  if (vocab.score.empty())
    return refused("tokenizer.ggml.scores is missing: a SentencePiece vocabulary needs them.");
  auto spm = std::make_unique<Spm>(vocab);
  spm->build();
  return spm;
}

}  // namespace ondol::tokenizer
