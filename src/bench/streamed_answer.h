// Thread rule: belongs to one request.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "bench/sse_reader.h"

namespace ondol::bench {

using Clock = std::chrono::steady_clock;

/// What a streamed answer of OpenAI's API says, event by event.
class StreamedAnswer {
 public:
  /// `keep_text`: the answer's text is wanted, too.
  explicit StreamedAnswer(bool keep_text);
  StreamedAnswer(const StreamedAnswer&) = delete;
  StreamedAnswer& operator=(const StreamedAnswer&) = delete;

  /// Bytes of the body as they come, at that time. False: more than one may keep; give it up.
  bool push(std::string_view bytes, Clock::time_point now);

  std::optional<Clock::time_point> first;  ///< when the first text came
  Clock::time_point last = {};             ///< when the last text came
  double longest_pause = 0;                ///< seconds between two texts
  int n_texts = 0;                         ///< events with text
  std::string text;
  std::string finish;             ///< the finish_reason
  bool done = false;              ///< `[DONE]` came
  std::optional<int> prompt;      ///< tokens, as the server counts them
  std::optional<int> completion;  ///< tokens, as the server counts them
  std::optional<int> cached;      ///< tokens of the prompt that were not computed
  std::string error;              ///< of an event with an error, or what is wrong with the stream
  std::string plain;              ///< the beginning of a body that is no event stream

  /// Tokens of the answer: as the server says, else one for each event with text.
  int n_tokens() const { return completion.value_or(n_texts); }
  /// Seconds from one token to the next, on average; nothing for fewer than two.
  std::optional<double> seconds_per_token() const;

 private:
  void take(std::string_view data);
  void take_texts();

  const bool keep_text_;
  Clock::time_point now_ = {};
  SseReader reader_;
};

}  // namespace ondol::bench
