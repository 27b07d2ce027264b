#include "serve/openai_api.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <random>

#include "serve/sse.h"

namespace ondol::serve {
namespace json = boost::json;
namespace {

int64_t seconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             Env::real().wall_clock().time_since_epoch())
      .count();
}

/// 128 random bits: no client can guess another's.
std::string new_id(std::string_view prefix) {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}{:08x}{:08x}", prefix, random(), random(), random(), random());
}

/// A header's value must be printable ASCII, whatever a client's field was called.
std::string header_text(std::string text) {
  constexpr size_t kLongest = 1000;
  if (text.size() > kLongest) text.resize(kLongest);
  std::ranges::replace_if(text, [](char c) { return c < 0x20 || c > 0x7E; }, '?');
  return text;
}

template <class T>
std::unexpected<ApiError> pass_on(ApiResult<T>&& result) {
  return std::unexpected(std::move(result).error());
}

}  // namespace

OpenAiApi::OpenAiApi(engine::Service& service, Metrics& metrics, ApiOptions options)
    : service_(service),
      metrics_(metrics),
      options_(std::move(options)),
      created_(seconds_since_1970()),
      prompter_(service.engine()) {}

ApiResult<void> OpenAiApi::check_model(std::string_view name) const {
  if (name.empty() || name == options_.names.id ||
      std::ranges::find(options_.names.other, name) != options_.names.other.end()) {
    return {};
  }
  return std::unexpected(ApiError{
      .status = 404,
      .message =
          fmt::format("there is no model '{}' here; this server has '{}'", name, options_.names.id),
      .param = "model",
      .code = "model_not_found"});
}

AnswerPlan OpenAiApi::new_plan(bool chat, AnswerSettings settings,
                               const HttpRequest& request) const {
  AnswerPlan plan{
      .head = {.chat = chat,
               .id = new_id(chat ? "chatcmpl-" : "cmpl-"),
               .created = seconds_since_1970(),
               .model = options_.names.id,
               .fingerprint = fmt::format("ondol-{}", simd::isa_name(service_.engine().isa()))},
      .settings = std::move(settings),
      .client = request.client};
  // The separator is no part of a key's name: no name and salt can pass for another pair.
  plan.tenant = options_.share_prefix ? "" : request.client;
  plan.tenant += '\0' + plan.settings.cache_salt;
  plan.headers.emplace_back("X-Request-Id", plan.head.id);
  if (!plan.settings.ignored.empty()) {
    plan.headers.emplace_back(
        "Ondol-Ignored", header_text(fmt::format("{}", fmt::join(plan.settings.ignored, ", "))));
  }
  return plan;
}

ApiResult<AnswerPlan> OpenAiApi::plan_chat(const HttpRequest& request) const {
  const auto body = parse_body(request.body);
  if (!body) return std::unexpected(body.error());
  auto chat = parse_chat(*body, n_vocab(), prompter_.source());
  if (!chat) return pass_on(std::move(chat));
  if (auto known = check_model(chat->settings.model); !known) return pass_on(std::move(known));
  auto ids = prompter_.chat_ids(std::move(chat->conversation));
  if (!ids) return pass_on(std::move(ids));
  auto plan = new_plan(true, std::move(chat->settings), request);
  plan.prompts.push_back(std::move(*ids));
  return plan;
}

ApiResult<AnswerPlan> OpenAiApi::plan_completion(const HttpRequest& request) const {
  const auto body = parse_body(request.body);
  if (!body) return std::unexpected(body.error());
  auto completion = parse_completion(*body, n_vocab());
  if (!completion) return pass_on(std::move(completion));
  if (auto known = check_model(completion->settings.model); !known)
    return pass_on(std::move(known));
  auto plan = new_plan(false, std::move(completion->settings), request);
  for (auto& prompt : completion->prompts) {
    auto ids = prompter_.completion_ids(std::move(prompt));
    if (!ids) return pass_on(std::move(ids));
    plan.prompts.push_back(std::move(*ids));
  }
  return plan;
}

void OpenAiApi::answer(ApiResult<AnswerPlan> plan, std::shared_ptr<Responder> responder) {
  if (!plan) {
    send_error(*responder, metrics_, plan.error());
    return;
  }
  const bool stream = plan->settings.stream;
  const auto answer = Answer::start(service_, metrics_, std::move(*plan), std::move(responder));
  if (stream) keep_alive_.add(answer);
}

void OpenAiApi::chat(const HttpRequest& request, std::shared_ptr<Responder> responder) {
  answer(plan_chat(request), std::move(responder));
}

void OpenAiApi::complete(const HttpRequest& request, std::shared_ptr<Responder> responder) {
  answer(plan_completion(request), std::move(responder));
}

json::object OpenAiApi::model_json() const {
  return {{"id", options_.names.id},
          {"object", "model"},
          {"created", created_},
          {"owned_by", "ondol"},
          {"context_length", service_.engine().n_ctx()},
          {"max_model_len", service_.engine().n_ctx()}};
}

ApiResult<json::object> OpenAiApi::list_models() const {
  return json::object{{"object", "list"}, {"data", json::array{model_json()}}};
}

ApiResult<json::object> OpenAiApi::show_model(std::string_view id) const {
  if (auto known = check_model(id); !known) return pass_on(std::move(known));
  return model_json();
}

ApiResult<json::object> OpenAiApi::embed(std::string_view text) const {
  const auto body = parse_body(text);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  const std::string model = fields.text("model").value_or("");
  const json::value* input = fields.find("input");
  if (input == nullptr || (input->is_array() && input->get_array().empty()))
    fields.fail("input", "input is missing or empty; give a text or a list of texts");
  if (fields.error()) return std::unexpected(*fields.error());
  if (auto known = check_model(model); !known) return pass_on(std::move(known));
  return bad_field("model",
                   fmt::format("the model '{}' gives no embeddings: it answers chat and "
                               "completions; send embedding requests to a server with an "
                               "embedding model",
                               options_.names.id),
                   "embeddings_not_supported");
}

ApiResult<json::object> OpenAiApi::tokenize(std::string_view text) const {
  const auto body = parse_body(text);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  auto content = fields.text("content");
  const auto prompt = fields.text("prompt");
  if (!content) content = prompt;
  if (!content) fields.fail("content", "content is missing; give a text");
  const bool add_special = fields.boolean("add_special", false);
  const bool parse_special = fields.boolean("parse_special", false);
  if (fields.error()) return std::unexpected(*fields.error());
  const auto ids = service_.engine().tokenizer().encode(
      *content, {.add_special = add_special, .parse_special = parse_special});
  return json::object{{"tokens", json::value_from(ids)}, {"count", ids.size()}};
}

ApiResult<json::object> OpenAiApi::detokenize(std::string_view text) const {
  const auto body = parse_body(text);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  const json::array* tokens = fields.array("tokens");
  if (tokens == nullptr) fields.fail("tokens", "tokens is missing; give a list of token ids");
  const bool special = fields.boolean("special", true);
  TokenIds ids;
  if (tokens != nullptr) ids = read_tokens(fields, "tokens", *tokens, n_vocab());
  if (fields.error()) return std::unexpected(*fields.error());
  return json::object{{"content", tokenizer::decode(service_.engine().tokenizer(), ids, special)}};
}

ApiResult<json::object> OpenAiApi::apply_template(std::string_view text) const {
  const auto body = parse_body(text);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body);
  json::object conversation;
  read_conversation(fields, prompter_.source(), conversation);
  if (fields.error()) return std::unexpected(*fields.error());
  auto prompt = prompter_.render(std::move(conversation));
  if (!prompt) return pass_on(std::move(prompt));
  return json::object{{"prompt", prompt->text}};
}

void send_json(Responder& responder, int status, const json::object& value, Headers headers) {
  headers.emplace_back("Content-Type", "application/json");
  responder.send(status, std::move(headers), to_json_line(value));
}

void send_error(Responder& responder, Metrics& metrics, const ApiError& error) {
  metrics.count_error(error_kind(error.status));
  send_json(responder, error.status, error_json(error), error.headers);
}

}  // namespace ondol::serve
