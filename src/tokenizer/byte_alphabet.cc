#include "tokenizer/byte_alphabet.h"

#include <array>

#include "tokenizer/utf8.h"

namespace ondol::tokenizer {
namespace {

// Printable Latin-1 bytes stand for themselves; the other 68 take U+0100 and up, in order.
constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Tables {
  std::array<uint16_t, 256> character{};
  std::array<int16_t, 256 + 68> byte{};
};

constexpr Tables make_tables() {
  Tables tables;
  tables.byte.fill(-1);
  uint16_t next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const uint16_t character = stands_for_itself(byte) ? static_cast<uint16_t>(byte) : next++;
    tables.character[byte] = character;
    tables.byte[character] = static_cast<int16_t>(byte);
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

bool append_from_byte_alphabet(std::string& out, std::string_view text) {
  const size_t before = out.size();
  for (size_t at = 0; at < text.size();) {
    if (text[at] >= 0x21 && text[at] <= 0x7E) {
      out.push_back(text[at++]);
      continue;
    }
    const CodePoint point = next_code_point(text.substr(at));
    const bool known = point.state == CodePoint::State::kGood && point.value < kTables.byte.size();
    const int16_t byte = known ? kTables.byte[point.value] : int16_t{-1};
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(byte));
    at += point.length;
  }
  return true;
}

void append_in_byte_alphabet(std::string& out, std::string_view bytes) {
  for (const char byte : bytes) append_utf8(out, kTables.character[static_cast<uint8_t>(byte)]);
}

}  // namespace ondol::tokenizer
