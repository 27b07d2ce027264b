#include "engine/text_stream.h"

#include <fmt/format.h>

#include "tokenizer/utf8.h"

namespace ondol::engine {

Result<TextStream> TextStream::make(const tokenizer::Tokenizer& tokenizer,
                                    const std::vector<std::string>& stops, bool special) {
  for (size_t i = 0; i < stops.size(); ++i) {
    if (const auto at = tokenizer::ill_formed_at(stops[i])) {
      return usage_error(fmt::format(
          "stop: text {} is not UTF-8 at byte {}, so no answer can hold it; give it in UTF-8",
          i + 1, *at));
    }
  }
  auto stop = decode::StopMatcher::make(stops);
  if (!stop) return propagate(std::move(stop));
  return TextStream(tokenizer, std::move(*stop), special);
}

std::string TextStream::push(int32_t token) {
  if (stopped()) return {};
  return stop_.push(utf8_.push(tokenizer_.piece(token, special_)));
}

std::string TextStream::finish() {
  if (stopped()) return {};
  std::string rest = stop_.push(utf8_.flush());
  if (!stopped()) rest += stop_.finish();
  return rest;
}

}  // namespace ondol::engine
