// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ondol {

/// Reads a size like `512M`, `8G`, `1.5GiB` or `4096` (bytes). K, M, G, T are powers of 1,024.
/// Usage error otherwise, naming the text.
Result<uint64_t> parse_size(std::string_view text);

/// Writes bytes for people: `98.3 MiB`, `1.2 GiB`, `512 B`.
std::string format_size(uint64_t bytes);

/// Writes a count for people: `134.5 M`, `7.2 B`, `950`.
std::string format_count(uint64_t count);

/// Of `candidates`, the one nearest to `word` by edit distance, if it is near enough to be what was
/// meant; else empty.
std::string_view nearest_name(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace ondol
