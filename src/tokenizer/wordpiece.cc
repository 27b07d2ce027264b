#include <utf8proc.h>

#include <algorithm>
#include <deque>

#include "tokenizer/model.h"
#include "tokenizer/normalize.h"
#include "tokenizer/text_map.h"
#include "tokenizer/utf8.h"

namespace ondol::tokenizer {
namespace {

constexpr size_t kLongestWord = 100;  // code points; a longer word is unknown

utf8proc_category_t category(char32_t value) {
  return static_cast<utf8proc_category_t>(utf8proc_category(static_cast<utf8proc_int32_t>(value)));
}

// Control, format and private code points go; tab and line ends are white space, and unassigned ones stay.
bool is_dropped(char32_t c) {
  if (c == 0 || c == 0xFFFD) return true;
  if (c == '\t' || c == '\n' || c == '\r') return false;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CS:
      return true;
    default:
      return false;
  }
}

bool is_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

bool is_punctuation(char32_t c) {
  if ((c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
      (c >= 123 && c <= 126))
    return true;
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

class WordPiece final : public Model {
 public:
  explicit WordPiece(const Vocab& vocab) : vocab_(vocab) {}

  void build();
  void encode(std::string_view text, std::vector<TokenId>& out) const override;
  std::optional<TokenId> find(std::string_view token_text) const override;

 private:
  std::u32string normalize(std::string_view text) const;
  void encode_word(std::u32string_view word, std::vector<TokenId>& out) const;

  const Vocab& vocab_;
  std::vector<std::string_view> keys_;  // "word" at the beginning of a word, "##ing" inside
  std::deque<std::string> written_;
  TextMap words_;
  size_t longest_ = 0;  // bytes of the longest key
  bool lower_ = true;
};

void WordPiece::build() {
  // Two spellings are in use: words plain and "##" before what continues them, or U+2581 before
  // words and the rest plain.
  const bool marked =
      std::any_of(vocab_.text.begin(), vocab_.text.end(),
                  [](std::string_view text) { return text.starts_with(kSpaceMark); });
  keys_ = vocab_.text;
  size_t plain = 0;
  for (size_t i = 0; i < vocab_.size(); ++i) {
    if (vocab_.kind[i] != TokenKind::kNormal || vocab_.text[i].empty()) continue;
    ++plain;
    if (marked && vocab_.text[i].starts_with(kSpaceMark)) {
      keys_[i] = vocab_.text[i].substr(kSpaceMark.size());
      // A vocabulary with capitals in its words is a cased one; an uncased one has none.
      lower_ = lower_ && std::none_of(keys_[i].begin(), keys_[i].end(),
                                      [](char c) { return c >= 'A' && c <= 'Z'; });
    } else if (marked) {
      keys_[i] = written_.emplace_back(std::string("##").append(vocab_.text[i]));
    } else if (!vocab_.text[i].starts_with('[')) {
      lower_ = lower_ && std::none_of(keys_[i].begin(), keys_[i].end(),
                                      [](char c) { return c >= 'A' && c <= 'Z'; });
    }
    longest_ = std::max(longest_, keys_[i].size());
  }
  words_.reset(keys_, plain);
  for (size_t i = 0; i < vocab_.size(); ++i) {
    if (vocab_.kind[i] == TokenKind::kNormal && !keys_[i].empty())
      words_.insert(static_cast<TokenId>(i));
  }
}

std::u32string WordPiece::normalize(std::string_view text) const {
  std::u32string points;
  points.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = next_code_point(text.substr(at));
    at += point.length;
    if (is_dropped(point.value)) continue;
    if (is_ideograph(point.value)) {
      points.append({U' ', point.value, U' '});
    } else {
      points.push_back(is_white_space(point.value) ? U' ' : point.value);
    }
  }
  if (!lower_) return points;
  points = to_nfd(points);
  std::erase_if(points,
                [](char32_t c) { return c >= 0x300 && category(c) == UTF8PROC_CATEGORY_MN; });
  for (char32_t& c : points)
    c = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
  return points;
}

void WordPiece::encode(std::string_view text, std::vector<TokenId>& out) const {
  const std::u32string points = normalize(text);
  const std::u32string_view all = points;
  size_t begin = 0;
  for (size_t at = 0; at <= all.size(); ++at) {
    const bool space = at == all.size() || is_white_space(all[at]);
    const bool mark = !space && is_punctuation(all[at]);
    if (!space && !mark) continue;
    if (at > begin) encode_word(all.substr(begin, at - begin), out);
    if (mark) encode_word(all.substr(at, 1), out);
    begin = at + 1;
  }
}

void WordPiece::encode_word(std::u32string_view word, std::vector<TokenId>& out) const {
  const size_t before = out.size();
  const auto give_up = [&] {
    out.resize(before);
    if (vocab_.unknown) out.push_back(*vocab_.unknown);
  };
  if (word.size() > kLongestWord) return give_up();
  std::string bytes;
  std::vector<size_t> ends{0};  // where each code point ends
  for (const char32_t c : word) {
    append_utf8(bytes, c);
    ends.push_back(bytes.size());
  }
  std::string key;
  for (size_t begin = 0; begin < word.size();) {
    TokenId found = -1;
    size_t end = word.size();
    for (; end > begin; --end) {
      const size_t length = ends[end] - ends[begin];
      if (length > longest_) continue;
      key.assign(begin > 0 ? "##" : "").append(bytes, ends[begin], length);
      found = words_.find(key);
      if (found >= 0) break;
    }
    if (found < 0) return give_up();
    out.push_back(found);
    begin = end;
  }
}

std::optional<TokenId> WordPiece::find(std::string_view) const {
  return std::nullopt;  // looked up rarely, and by the scan
}

}  // namespace

Result<std::unique_ptr<Model>> make_wordpiece(const Vocab& vocab) {
  auto model = std::make_unique<WordPiece>(vocab);
  model->build();
  return model;
}

}  // namespace ondol::tokenizer
