// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ondol::tokenizer {

/// Appends the bytes that a token text of a byte-level vocabulary stands for (each byte is written
/// as a printable character: GPT-2's alphabet). False, with `out` unchanged, if a character is not
/// in the alphabet.
bool append_from_byte_alphabet(std::string& out, std::string_view text);

/// Appends `bytes` written in that alphabet.
void append_in_byte_alphabet(std::string& out, std::string_view bytes);

}  // namespace ondol::tokenizer
