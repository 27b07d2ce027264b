// Thread rule: immutable; any thread.
#pragma once

#include <boost/json/object.hpp>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "chat/template.h"
#include "engine/engine.h"
#include "serve/openai_error.h"
#include "serve/openai_request.h"

namespace ondol::serve {

/// Turns conversations and texts into token ids with the template and vocabulary of one model.
class Prompter {
 public:
  /// A template that cannot be compiled is no error here: chat requests are refused then, with its
  /// reason. `engine` must outlive the prompter.
  explicit Prompter(const engine::Engine& engine);

  /// The template's text; empty where the model has none.
  std::string_view source() const { return source_; }
  /// The rendered conversation. Usage error in OpenAI's shape where the template refuses it.
  ApiResult<chat::Prompt> render(boost::json::object conversation) const;
  /// Its ids. Control tokens that a message spells out stay letters.
  ApiResult<TokenIds> chat_ids(boost::json::object conversation) const;
  /// The ids of a prompt of /v1/completions: BOS where the model wants it, control tokens as text.
  ApiResult<TokenIds> completion_ids(std::variant<std::string, TokenIds> prompt) const;

  /// Whether an answer fits behind so many tokens: else a 400 with both numbers.
  ApiResult<void> check_length(size_t n_prompt, std::string_view param) const;

 private:
  const engine::Engine& engine_;
  std::string source_;
  Result<chat::ChatTemplate> template_;
  chat::ControlTokens controls_;
};

}  // namespace ondol::serve
