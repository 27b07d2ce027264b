// Thread rule: pure functions.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ondol::serve {

/// What stands at the top of every chunk and answer.
struct AnswerHead {
  bool chat = true;  ///< else /v1/completions
  std::string id;
  int64_t created = 0;  ///< seconds since 1970
  std::string model;
  std::string fingerprint;
};

/// One token with its probability; texts are bytes, which need not be whole letters.
struct TokenLogprob {
  std::string bytes;
  double logprob = 0;
  std::vector<std::pair<std::string, double>> top;
  int text_offset = 0;  ///< letters of the answer before it
};

struct Usage {
  int prompt = 0;
  int cached = 0;
  int completion = 0;
};

/// Milliseconds of an answer: up to its first token, from there to its last.
struct Timings {
  double prefill_ms = 0;
  double decode_ms = 0;
  int n_computed = 0;  ///< tokens of the prompt that were not cached
  int n_decoded = 0;   ///< tokens after the first
};

/// A part of one choice.
struct Piece {
  int index = 0;
  std::string text;
  bool first = false;                                   ///< carries the role
  const std::vector<TokenLogprob>* logprobs = nullptr;  ///< null where none were asked for
  std::string finish;                                   ///< empty: it goes on
};

/// An event of a stream. `null_usage`: usage was asked for, so that it stands in every event.
boost::json::object chunk(const AnswerHead& head, const Piece& piece, bool null_usage);
/// The event before the end of a stream with usage.
boost::json::object usage_chunk(const AnswerHead& head, const Usage& usage);
/// A whole answer; the pieces are its choices.
boost::json::object whole_answer(const AnswerHead& head, const std::vector<Piece>& choices,
                                 const Usage& usage, const Timings& timings);
boost::json::object to_json(const Usage& usage);
boost::json::object to_json(const Timings& timings);

}  // namespace ondol::serve
