// Thread rule: belongs to one answer and one thread at a time.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "decode/stop.h"
#include "tokenizer/tokenizer.h"

namespace ondol::engine {

/// Turns the tokens of an answer into text that may be shown: whole code points only, nothing that
/// could still become part of a stop text.
class TextStream {
 public:
  /// Usage error for a stop text that is empty, too long or not UTF-8, or too many of them.
  /// `special`: control tokens are shown.
  static Result<TextStream> make(const tokenizer::Tokenizer& tokenizer,
                                 const std::vector<std::string>& stops, bool special);

  /// The text to show after this token.
  std::string push(int32_t token);
  /// The answer is over: what was still held back.
  std::string finish();
  /// A stop text was met; nothing comes after it.
  bool stopped() const { return stop_.stopped(); }

 private:
  TextStream(const tokenizer::Tokenizer& tokenizer, decode::StopMatcher stop, bool special)
      : tokenizer_(tokenizer), stop_(std::move(stop)), special_(special) {}

  const tokenizer::Tokenizer& tokenizer_;
  tokenizer::Utf8Stream utf8_;
  decode::StopMatcher stop_;
  bool special_;
};

}  // namespace ondol::engine
