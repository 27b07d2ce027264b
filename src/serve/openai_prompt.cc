#include "serve/openai_prompt.h"

#include <fmt/format.h>

namespace ondol::serve {
namespace {

/// The template's text; empty where there is none that can be read.
std::string source_of(const gguf::File& file) {
  const auto source = chat::template_source(file);
  return source ? std::string(source->value_or("")) : std::string();
}

}  // namespace

Prompter::Prompter(const engine::Engine& engine)
    : engine_(engine),
      source_(source_of(engine.file())),
      template_(chat::ChatTemplate::of_model(engine.file())),
      controls_(engine.tokenizer()) {}

ApiResult<chat::Prompt> Prompter::render(boost::json::object conversation) const {
  if (!template_) {
    return std::unexpected(ApiError{.message = template_.error().message, .param = "messages"});
  }
  auto& value = conversation["options"];
  auto& options = value.is_object() ? value.get_object() : value.emplace_object();
  for (const auto& [name, own] : chat::prompt_options(engine_.tokenizer())) options[name] = own;
  auto prompt = template_->render_prompt(conversation, controls_);
  if (!prompt) {
    return std::unexpected(ApiError{.message = prompt.error().message, .param = "messages"});
  }
  return std::move(*prompt);
}

ApiResult<TokenIds> Prompter::chat_ids(boost::json::object conversation) const {
  const auto prompt = render(std::move(conversation));
  if (!prompt) return std::unexpected(prompt.error());
  auto ids = chat::encode_prompt(engine_.tokenizer(), controls_, *prompt);
  if (auto fits = check_length(ids.size(), "messages"); !fits)
    return std::unexpected(std::move(fits).error());
  return ids;
}

ApiResult<TokenIds> Prompter::completion_ids(std::variant<std::string, TokenIds> prompt) const {
  TokenIds ids;
  if (auto* given = std::get_if<TokenIds>(&prompt)) {
    ids = std::move(*given);
  } else {
    // A raw prompt is the client's own: as in `ondol run --raw`, control tokens count as such.
    ids = engine_.tokenizer().encode(std::get<std::string>(prompt),
                                     {.add_special = true, .parse_special = true});
    if (ids.empty() && engine_.tokenizer().bos()) ids.push_back(*engine_.tokenizer().bos());
  }
  if (ids.empty()) return bad_field("prompt", "the prompt is empty; give at least one token");
  if (auto fits = check_length(ids.size(), "prompt"); !fits)
    return std::unexpected(std::move(fits).error());
  return ids;
}

ApiResult<void> Prompter::check_length(size_t n_prompt, std::string_view param) const {
  if (n_prompt < static_cast<size_t>(engine_.n_ctx())) return {};
  return bad_field(
      std::string(param),
      fmt::format("the prompt has {} tokens, but the context of {} tokens must also hold the "
                  "answer; shorten it, or serve the model with a larger --ctx",
                  n_prompt, engine_.n_ctx()),
      "context_length_exceeded");
}

}  // namespace ondol::serve
