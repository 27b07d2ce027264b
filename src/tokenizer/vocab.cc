#include "tokenizer/vocab.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/utf8.h"

namespace ondol::tokenizer {
namespace {

// Control tokens with these texts end an answer, whatever the file names as EOS.
constexpr std::array<std::string_view, 24> kEndTexts = {
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<end_of_turn>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "</s>",
    "<eos>",
    "<|return|>",
    "<|call|>",
    "<|eot|>",
    "<|eom|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_turn|>",
    "<|endofturn|>",
    "[|endofturn|]",
    "<turn|>",
    "<|END_OF_TURN_TOKEN|>",
    "<end_of_utterance>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};

bool holds_integers(gguf::ValueType type) {
  using enum gguf::ValueType;
  return type == kU8 || type == kI8 || type == kU16 || type == kI16 || type == kU32 ||
         type == kI32 || type == kU64 || type == kI64;
}

Result<const gguf::Array*> array_of_size(const gguf::File& file, std::string_view key,
                                         size_t size) {
  const gguf::Value* value = file.find(key);
  if (value == nullptr) return nullptr;
  const auto* array = std::get_if<gguf::Array>(&value->data);
  if (array == nullptr)
    return refused(fmt::format("{} is not an array: the file's vocabulary is broken.", key));
  if (array->size() != size) {
    return refused(
        fmt::format("{} has {} entries, but tokenizer.ggml.tokens has {}: they must be as many.",
                    key, array->size(), size));
  }
  return array;
}

Result<void> read_tokens(const gguf::File& file, Vocab& vocab) {
  auto tokens = string_array(file, "tokenizer.ggml.tokens");
  if (!tokens) return propagate(tokens);
  if (*tokens == nullptr || (*tokens)->size() == 0) {
    return refused("tokenizer.ggml.tokens is missing or empty: the file holds no vocabulary.");
  }
  const uint64_t count = (*tokens)->size();
  if (count > uint64_t{std::numeric_limits<TokenId>::max()}) {
    return refused(
        fmt::format("tokenizer.ggml.tokens has {} entries, more than ids can number.", count));
  }
  vocab.text.reserve(count);
  for (uint64_t i = 0; i < count; ++i) vocab.text.push_back((*tokens)->at_string(i));
  return {};
}

Result<void> read_kinds(const gguf::File& file, Vocab& vocab) {
  vocab.kind.assign(vocab.size(), TokenKind::kNormal);
  auto types = array_of_size(file, "tokenizer.ggml.token_type", vocab.size());
  if (!types) return propagate(types);
  if (*types == nullptr) return {};
  if (!holds_integers((*types)->type()))
    return refused("tokenizer.ggml.token_type must be an array of integers.");
  for (size_t i = 0; i < vocab.size(); ++i) {
    const int64_t kind = (*types)->at_int(i);
    if (kind < 0 || kind > 6) {
      return refused(
          fmt::format("tokenizer.ggml.token_type[{}] is {}: kinds go from 1 to 6.", i, kind));
    }
    if (kind > 0) vocab.kind[i] = static_cast<TokenKind>(kind);  // 0, "undefined", is a plain token
  }
  return {};
}

Result<void> read_scores(const gguf::File& file, Vocab& vocab) {
  auto scores = array_of_size(file, "tokenizer.ggml.scores", vocab.size());
  if (!scores) return propagate(scores);
  if (*scores == nullptr) return {};
  const auto type = (*scores)->type();
  if (type != gguf::ValueType::kF32 && type != gguf::ValueType::kF64) {
    return refused("tokenizer.ggml.scores must be an array of floats.");
  }
  vocab.score.reserve(vocab.size());
  for (size_t i = 0; i < vocab.size(); ++i) {
    const auto score = static_cast<float>((*scores)->at_float(i));
    if (score != score)
      return refused(fmt::format("tokenizer.ggml.scores[{}] is not a number.", i));
    vocab.score.push_back(score);
  }
  return {};
}

Result<void> read_id(const gguf::File& file, const Vocab& vocab, std::string_view key,
                     std::optional<TokenId>& id) {
  if (file.find(key) == nullptr) return {};
  auto value = file.get_uint(key);
  if (!value) return propagate(value);
  if (*value >= vocab.size()) {
    return refused(
        fmt::format("{} is {}, outside the vocabulary of {} tokens.", key, *value, vocab.size()));
  }
  id = static_cast<TokenId>(*value);
  return {};
}

Result<void> read_flag(const gguf::File& file, std::string_view key, std::optional<bool>& flag) {
  if (file.find(key) == nullptr) return {};
  auto value = file.get_bool(key, false);
  if (!value) return propagate(value);
  flag = *value;
  return {};
}

Result<void> read_rules(const gguf::File& file, Vocab& vocab) {
  std::optional<TokenId> eot;
  std::optional<TokenId> eom;
  const std::pair<std::string_view, std::optional<TokenId>*> ids[] = {
      {"tokenizer.ggml.bos_token_id", &vocab.bos},
      {"tokenizer.ggml.eos_token_id", &vocab.eos},
      {"tokenizer.ggml.eot_token_id", &eot},
      {"tokenizer.ggml.eom_token_id", &eom},
      {"tokenizer.ggml.unknown_token_id", &vocab.unknown},
      {"tokenizer.ggml.cls_token_id", &vocab.cls},
      {"tokenizer.ggml.seperator_token_id", &vocab.sep},  // spelt so in the format
  };
  for (const auto& [key, id] : ids) {
    if (auto read = read_id(file, vocab, key, *id); !read) return read;
  }
  const std::pair<std::string_view, std::optional<bool>*> flags[] = {
      {"tokenizer.ggml.add_bos_token", &vocab.add_bos},
      {"tokenizer.ggml.add_eos_token", &vocab.add_eos},
      {"tokenizer.ggml.add_sep_token", &vocab.add_sep},
      {"tokenizer.ggml.add_space_prefix", &vocab.add_space_prefix},
  };
  for (const auto& [key, flag] : flags) {
    if (auto read = read_flag(file, key, *flag); !read) return read;
  }
  for (const auto& id : {eot, eom}) {
    if (id) vocab.ends.push_back(*id);
  }
  return {};
}

void collect_ends(Vocab& vocab) {
  if (vocab.eos) vocab.ends.push_back(*vocab.eos);
  std::optional<TokenId> end_of_message;
  bool harmony = false;
  for (size_t i = 0; i < vocab.size(); ++i) {
    if (vocab.kind[i] != TokenKind::kControl) continue;
    const auto id = static_cast<TokenId>(i);
    const std::string_view text = vocab.text[i];
    harmony |= text == "<|return|>";
    if (text == "<|end|>") {
      end_of_message = id;
    } else if (std::find(kEndTexts.begin(), kEndTexts.end(), text) != kEndTexts.end()) {
      vocab.ends.push_back(id);
    }
  }
  // In the harmony format <|end|> closes one message of several; <|return|> and <|call|> end the
  // answer.
  if (end_of_message && !harmony) vocab.ends.push_back(*end_of_message);
  std::sort(vocab.ends.begin(), vocab.ends.end());
  vocab.ends.erase(std::unique(vocab.ends.begin(), vocab.ends.end()), vocab.ends.end());
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// "<0x0A>" -> 10, else -1.
int byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const int high = hex_digit(text[3]);
  const int low = hex_digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

void append_with_spaces(std::string& out, std::string_view text) {
  for (size_t at = 0;;) {
    const size_t mark = text.find(kSpaceMark, at);
    out.append(text.substr(at, mark - at));
    if (mark == std::string_view::npos) return;
    out.push_back(' ');
    at = mark + kSpaceMark.size();
  }
}

void append_spelt(std::string& out, std::string_view text, TokenKind kind, Spelling spelling,
                  bool marked) {
  const int byte = kind == TokenKind::kByte ? byte_token(text) : -1;
  if (byte >= 0) {
    out.push_back(static_cast<char>(byte));
  } else if (kind != TokenKind::kNormal && kind != TokenKind::kUnused) {
    out.append(text);
  } else if (spelling == Spelling::kByteAlphabet) {
    if (!append_from_byte_alphabet(out, text)) out.append(text);
  } else if (spelling == Spelling::kSpaceMark || marked) {
    append_with_spaces(out, text);
  } else if (text.starts_with("##")) {
    out.append(text.substr(2));
  } else {
    out.append(" ").append(text);
  }
}

}  // namespace

Result<const gguf::Array*> string_array(const gguf::File& file, std::string_view key) {
  const gguf::Value* value = file.find(key);
  if (value == nullptr) return nullptr;
  const auto* array = std::get_if<gguf::Array>(&value->data);
  if (array == nullptr || array->type() != gguf::ValueType::kString) {
    return refused(fmt::format("{} must be an array of strings.", key));
  }
  return array;
}

Result<void> read_vocab(const gguf::File& file, Vocab& vocab) {
  const std::pair<std::string_view, std::string_view*> names[] = {
      {"tokenizer.ggml.model", &vocab.model},
      {"tokenizer.ggml.pre", &vocab.pre},
      {"general.architecture", &vocab.architecture}};
  for (const auto& [key, name] : names) {
    auto value = file.get_string(key, "");
    if (!value) return propagate(value);
    *name = *value;
  }
  if (auto read = read_tokens(file, vocab); !read) return read;
  if (auto read = read_kinds(file, vocab); !read) return read;
  if (auto read = read_scores(file, vocab); !read) return read;
  if (auto read = read_rules(file, vocab); !read) return read;
  collect_ends(vocab);
  return {};
}

void spell_pieces(Vocab& vocab, Spelling spelling) {
  size_t bytes = 0;
  bool marked = false;
  for (size_t i = 0; i < vocab.size(); ++i) {
    bytes += vocab.text[i].size() + 1;
    marked |= spelling == Spelling::kWordPiece && vocab.text[i].starts_with(kSpaceMark);
  }
  vocab.arena.clear();
  vocab.arena.reserve(bytes);  // never grows beyond: the views below stay where they are
  vocab.piece.clear();
  vocab.piece.reserve(vocab.size());
  for (size_t i = 0; i < vocab.size(); ++i) {
    const size_t begin = vocab.arena.size();
    append_spelt(vocab.arena, vocab.text[i], vocab.kind[i], spelling, marked);
    vocab.piece.emplace_back(vocab.arena.data() + begin, vocab.arena.size() - begin);
  }
}

std::optional<TokenId> scan_for(const Vocab& vocab, std::string_view token_text) {
  const auto found = std::find(vocab.text.begin(), vocab.text.end(), token_text);
  if (found == vocab.text.end()) return std::nullopt;
  return static_cast<TokenId>(found - vocab.text.begin());
}

}  // namespace ondol::tokenizer
