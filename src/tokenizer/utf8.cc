#include "tokenizer/utf8.h"

#include <cstring>

#include "tokenizer/tokenizer.h"

namespace ondol::tokenizer {
namespace {

struct Lead {
  uint8_t length = 0;  // 0: no lead byte
  uint8_t low = 0x80;  // range of the second byte: rules out overlong forms, surrogates and values
                       // above U+10FFFF
  uint8_t high = 0xBF;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0xC2 || byte > 0xF4) return {};
  if (byte < 0xE0) return {.length = 2};
  if (byte < 0xF0) {
    return {.length = 3,
            .low = uint8_t(byte == 0xE0 ? 0xA0 : 0x80),
            .high = uint8_t(byte == 0xED ? 0x9F : 0xBF)};
  }
  return {.length = 4,
          .low = uint8_t(byte == 0xF0 ? 0x90 : 0x80),
          .high = uint8_t(byte == 0xF4 ? 0x8F : 0xBF)};
}

// Appends `bytes` without what is ill-formed; returns how many bytes of an unfinished code point
// are left at the end.
size_t append_well_formed(std::string& out, std::string_view bytes) {
  size_t good = 0;  // start of the run that can be copied as it is
  size_t at = 0;
  while (at < bytes.size()) {
    const CodePoint point = next_code_point(bytes.substr(at));
    if (point.state != CodePoint::State::kGood) {
      out.append(bytes.substr(good, at - good));
      if (point.state == CodePoint::State::kUnfinished) return bytes.size() - at;
      out.append(kReplacement);
      good = at + point.length;
    }
    at += point.length;
  }
  out.append(bytes.substr(good));
  return 0;
}

}  // namespace

CodePoint next_code_point(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {.value = first, .length = 1};
  const Lead lead = lead_of(first);
  if (lead.length == 0) return {.value = 0xFFFD, .length = 1, .state = CodePoint::State::kBroken};
  char32_t value = first & (0xFFU >> (lead.length + 1));
  for (uint32_t i = 1; i < lead.length; ++i) {
    if (i >= bytes.size())
      return {.value = 0xFFFD, .length = i, .state = CodePoint::State::kUnfinished};
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xBF;
    if (byte(i) < low || byte(i) > high) {
      return {.value = 0xFFFD, .length = i, .state = CodePoint::State::kBroken};
    }
    value = (value << 6) | (byte(i) & 0x3FU);
  }
  return {.value = value, .length = lead.length};
}

void append_utf8(std::string& out, char32_t value) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  const auto v = static_cast<uint32_t>(value);
  if (v < 0x80) return put(v);
  if (v < 0x800) {
    put(0xC0 | (v >> 6));
  } else {
    if (v < 0x10000) {
      put(0xE0 | (v >> 12));
    } else {
      put(0xF0 | (v >> 18));
      put(0x80 | ((v >> 12) & 0x3F));
    }
    put(0x80 | ((v >> 6) & 0x3F));
  }
  put(0x80 | (v & 0x3F));
}

bool is_ascii(std::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + i, 8);
    if ((word & 0x8080808080808080ULL) != 0) return false;
  }
  for (; i < text.size(); ++i) {
    if ((static_cast<uint8_t>(text[i]) & 0x80) != 0) return false;
  }
  return true;
}

std::optional<size_t> ill_formed_at(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (at + 8 <= text.size() && is_ascii(text.substr(at, 8))) {
      at += 8;
      continue;
    }
    const CodePoint point = next_code_point(text.substr(at));
    if (point.state != CodePoint::State::kGood) return at;
    at += point.length;
  }
  return std::nullopt;
}

bool is_valid_utf8(std::string_view text) { return !ill_formed_at(text); }

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

std::string_view without_space_before(std::string_view text) {
  while (!text.empty()) {
    const CodePoint point = next_code_point(text);
    if (!is_white_space(point.value)) break;
    text.remove_prefix(point.length);
  }
  return text;
}

std::string_view without_space_after(std::string_view text) {
  while (!text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
    if (!is_white_space(next_code_point(text.substr(at)).value)) break;
    text.remove_suffix(text.size() - at);
  }
  return text;
}

std::string replace_ill_formed(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 8);
  if (append_well_formed(out, text) > 0) out.append(kReplacement);
  return out;
}

std::string Utf8Stream::push(std::string_view bytes) {
  std::string joined;
  if (!pending_.empty()) {
    joined = pending_;
    joined.append(bytes);
    bytes = joined;
  }
  std::string out;
  const size_t left = append_well_formed(out, bytes);
  pending_ = std::string(bytes.substr(bytes.size() - left));
  return out;
}

std::string Utf8Stream::flush() {
  std::string out(pending_.empty() ? std::string_view() : kReplacement);
  pending_.clear();
  return out;
}

std::string decode(const Tokenizer& tokenizer, std::span<const TokenId> ids, bool special) {
  std::string bytes;
  for (const TokenId id : ids) bytes.append(tokenizer.piece(id, special));
  return replace_ill_formed(bytes);
}

}  // namespace ondol::tokenizer
