// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace ondol::tokenizer {

/// Normalisation form C of well-formed UTF-8, in linear-log time whatever the runs of marks.
std::string to_nfc(std::string_view text);

/// True if the text is in form C for certain (no code point from U+0300 on).
bool is_trivially_nfc(std::string_view text);

/// Canonical decomposition (form D), as code points.
std::u32string to_nfd(std::u32string_view text);

}  // namespace ondol::tokenizer
