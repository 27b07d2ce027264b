#include "gguf/text.h"

#include <fmt/format.h>

namespace ondol::gguf {
namespace {

struct Sequence {
  size_t length;  // bytes of the character, or of the maximal ill-formed part
  bool valid;
};

bool in_range(std::string_view text, size_t i, unsigned low, unsigned high) {
  if (i >= text.size()) return false;
  const auto byte = static_cast<unsigned char>(text[i]);
  return byte >= low && byte <= high;
}

/// The character that begins at `i` (Unicode 15, table 3-7).
Sequence sequence_at(std::string_view text, size_t i) {
  const auto lead = static_cast<unsigned char>(text[i]);
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (!in_range(text, i + 1, low, high)) return {1, false};
  for (size_t k = 2; k < length; ++k) {
    if (!in_range(text, i + k, 0x80, 0xBF)) return {k, false};
  }
  return {length, true};
}

}  // namespace

bool is_utf8(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size();) {
    const Sequence s = sequence_at(bytes, i);
    if (!s.valid) return false;
    i += s.length;
  }
  return true;
}

std::string to_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    const Sequence s = sequence_at(bytes, i);
    text.append(s.valid ? bytes.substr(i, s.length) : std::string_view("\xEF\xBF\xBD"));
    i += s.length;
  }
  return text;
}

std::string printable(std::string_view bytes, size_t limit) {
  std::string text;
  for (size_t i = 0; i < bytes.size();) {
    if (i >= limit) return text + "…";
    const Sequence s = sequence_at(bytes, i);
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const auto next = i + 1 < bytes.size() ? static_cast<unsigned char>(bytes[i + 1]) : 0u;
    const bool c1_control = byte == 0xC2 && next < 0xA0;
    if (s.valid && byte >= 0x20 && byte != 0x7F && !c1_control) {
      text.append(bytes.substr(i, s.length));
    } else {
      for (size_t k = 0; k < s.length; ++k) {
        text += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[i + k]));
      }
    }
    i += s.length;
  }
  return text;
}

std::string with_commas(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

}  // namespace ondol::gguf
