// Thread rule: pure functions.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <variant>
#include <vector>

#include "decode/sampler.h"
#include "serve/openai_error.h"
#include "serve/openai_json.h"

namespace ondol::serve {

/// What both kinds of requests say about the answer.
struct AnswerSettings {
  std::string model;  ///< as the client names it; empty: the one that is served
  decode::SamplingParams sampling;
  int max_tokens = -1;  ///< -1: up to the end of the context
  int n = 1;            ///< answers to each prompt
  std::vector<std::string> stops;
  bool stream = false;
  bool include_usage = false;
  bool logprobs = false;
  bool ignore_end = false;
  std::string cache_salt;            ///< requests share computed text only with the same salt
  std::vector<std::string> ignored;  ///< fields that no part of the server knows
};

/// POST /v1/chat/completions. `conversation` is what chat::ChatTemplate renders: messages with
/// their content as one text, roles that templates know, tools, options of the client.
struct ChatRequest {
  AnswerSettings settings;
  boost::json::object conversation;
};

using TokenIds = std::vector<int32_t>;

/// POST /v1/completions.
struct CompletionRequest {
  AnswerSettings settings;
  std::vector<std::variant<std::string, TokenIds>> prompts;
};

/// Reads a body; `n_vocab` bounds token ids, `chat_template` decides what can be passed on (empty
/// where the model has none). The error names the field. Nothing that would change the answer is
/// dropped: what is not supported is refused, what is unknown is listed in `ignored`.
ApiResult<ChatRequest> parse_chat(const boost::json::object& body, int n_vocab,
                                  std::string_view chat_template);
ApiResult<CompletionRequest> parse_completion(const boost::json::object& body, int n_vocab);

/// The messages and tools of a body as templates want them, into `conversation`. For
/// /apply-template as well.
void read_conversation(Fields& fields, std::string_view chat_template,
                       boost::json::object& conversation);

/// A list of token ids; a mistake goes to `fields`.
TokenIds read_tokens(Fields& fields, std::string_view name, const boost::json::array& values,
                     int n_vocab);

}  // namespace ondol::serve
