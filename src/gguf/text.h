// Thread rule: pure functions.
//
// Bytes from a file, made fit for a message, a terminal or JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ondol::gguf {

/// Whether the bytes are well-formed UTF-8 (no surrogates, no overlong forms, nothing above
/// U+10FFFF).
bool is_utf8(std::string_view bytes);

/// The bytes as valid UTF-8: each maximal ill-formed part becomes U+FFFD. Well-formed text comes
/// back unchanged.
std::string to_utf8(std::string_view bytes);

/// For one line of a message or a terminal: control characters and ill-formed bytes as \xNN, cut
/// with "…" behind `limit` bytes.
std::string printable(std::string_view bytes, size_t limit = 96);

/// 1234567 -> "1,234,567".
std::string with_commas(uint64_t number);

}  // namespace ondol::gguf
