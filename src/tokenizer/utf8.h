// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ondol::tokenizer {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
inline constexpr std::string_view kSpaceMark =
    "\xE2\x96\x81";  // U+2581, a space in SentencePiece vocabularies

/// One step through a byte string.
struct CodePoint {
  enum class State : uint8_t { kGood, kBroken, kUnfinished };
  char32_t value = 0;  ///< U+FFFD unless good
  uint32_t length =
      0;  ///< bytes; of a broken one the maximal part (Unicode, "substitution of maximal subparts")
  State state = State::kGood;
};

/// The code point that begins `bytes` (not empty). kUnfinished: the string ends inside one that
/// could still be good.
CodePoint next_code_point(std::string_view bytes);

/// Appends U+0000 .. U+10FFFF as UTF-8.
void append_utf8(std::string& out, char32_t value);

/// Where the first ill-formed part begins, in bytes; none in well-formed text.
std::optional<size_t> ill_formed_at(std::string_view text);
/// Whether the whole text is well-formed.
bool is_valid_utf8(std::string_view text);
/// Whether every byte is below 0x80.
bool is_ascii(std::string_view text);

/// Unicode's White_Space.
bool is_white_space(char32_t value);
/// The text from its first code point that is no white space on, or up to its last.
std::string_view without_space_before(std::string_view text);
std::string_view without_space_after(std::string_view text);

/// The text with one U+FFFD for each maximal ill-formed part.
std::string replace_ill_formed(std::string_view text);

}  // namespace ondol::tokenizer
