#include "tokenizer/normalize.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <tuple>
#include <vector>

#include "tokenizer/utf8.h"

namespace ondol::tokenizer {
namespace {

int combining_class(char32_t value) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(value))->combining_class;
}

// utf8proc_decompose() orders marks by bubbling, quadratic in a run of them; a stable sort gives
// the same order.
void order_marks(std::u32string& text) {
  std::vector<std::tuple<int, size_t, char32_t>> marks;
  for (size_t at = 0; at < text.size();) {
    if (combining_class(text[at]) == 0) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < text.size() && combining_class(text[end]) != 0) ++end;
    if (end - at > 1) {
      marks.clear();
      for (size_t i = at; i < end; ++i) marks.push_back({combining_class(text[i]), i, text[i]});
      std::sort(marks.begin(), marks.end());  // by class, then by place
      for (size_t i = at; i < end; ++i) text[i] = std::get<2>(marks[i - at]);
    }
    at = end;
  }
}

void append_decomposed(std::u32string& out, char32_t value) {
  if (value < 0xC0) {
    out.push_back(value);
    return;
  }
  std::array<utf8proc_int32_t, 32> parts{};
  int last_class = UTF8PROC_BOUNDCLASS_START;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(value), parts.data(),
                                             parts.size(), UTF8PROC_DECOMPOSE, &last_class);
  assert(count > 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()));
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    out.push_back(static_cast<char32_t>(parts[static_cast<size_t>(i)]));
}

}  // namespace

std::u32string to_nfd(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (const char32_t value : text) append_decomposed(out, value);
  order_marks(out);
  return out;
}

bool is_trivially_nfc(std::string_view text) {
  // U+0300 is CC 80 in UTF-8, and lead bytes grow with the code point.
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<uint8_t>(c) >= 0xCC; });
}

std::string to_nfc(std::string_view text) {
  if (is_trivially_nfc(text)) return std::string(text);
  std::u32string points;
  points.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = next_code_point(text.substr(at));
    append_decomposed(points, point.value);
    at += point.length;
  }
  order_marks(points);
  std::vector<utf8proc_int32_t> buffer(points.begin(), points.end());
  // NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange): the options are bits
  constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  const auto length = utf8proc_normalize_utf32(
      buffer.data(), static_cast<utf8proc_ssize_t>(buffer.size()), kCompose);
  assert(length >= 0);
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < length; ++i)
    append_utf8(out, static_cast<char32_t>(buffer[static_cast<size_t>(i)]));
  return out;
}

}  // namespace ondol::tokenizer
