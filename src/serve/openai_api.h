// Thread rule: any thread; what renders and tokenizes may take a while, so not the HTTP server's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/service.h"
#include "serve/http_server.h"
#include "serve/metrics.h"
#include "serve/openai_answer.h"
#include "serve/openai_error.h"
#include "serve/openai_prompt.h"

namespace ondol::serve {

/// The model as clients know it.
struct ModelNames {
  std::string id;                  ///< what /v1/models lists
  std::vector<std::string> other;  ///< accepted as well: file name, path
};

struct ApiOptions {
  ModelNames names;
  /// Computed text is shared between API keys.
  bool share_prefix = false;
};

/// OpenAI's API over one service, and what else it takes to use a model from outside.
class OpenAiApi {
 public:
  /// `service` and `metrics` must outlive the API.
  OpenAiApi(engine::Service& service, Metrics& metrics, ApiOptions options);

  /// POST /v1/chat/completions, /v1/completions: the answer goes to the responder, now or later.
  void chat(const HttpRequest& request, std::shared_ptr<Responder> responder);
  void complete(const HttpRequest& request, std::shared_ptr<Responder> responder);

  ApiResult<boost::json::object> list_models() const;
  ApiResult<boost::json::object> show_model(std::string_view id) const;
  /// Checks the request, then says that the model has no embeddings.
  ApiResult<boost::json::object> embed(std::string_view body) const;
  /// {"content": text, "add_special", "parse_special"} -> {"tokens": [...], "count"}
  ApiResult<boost::json::object> tokenize(std::string_view body) const;
  /// {"tokens": [...], "special"} -> {"content": text}
  ApiResult<boost::json::object> detokenize(std::string_view body) const;
  /// {"messages": [...]} -> {"prompt": text}
  ApiResult<boost::json::object> apply_template(std::string_view body) const;

  const engine::Service& service() const { return service_; }

 private:
  ApiResult<void> check_model(std::string_view name) const;
  boost::json::object model_json() const;
  ApiResult<AnswerPlan> plan_chat(const HttpRequest& request) const;
  ApiResult<AnswerPlan> plan_completion(const HttpRequest& request) const;
  AnswerPlan new_plan(bool chat, AnswerSettings settings, const HttpRequest& request) const;
  void answer(ApiResult<AnswerPlan> plan, std::shared_ptr<Responder> responder);
  int n_vocab() const { return service_.engine().tokenizer().n_tokens(); }

  engine::Service& service_;
  Metrics& metrics_;
  const ApiOptions options_;
  const int64_t created_;
  Prompter prompter_;
  KeepAlive keep_alive_;
};

/// Sends a JSON object, or an error in OpenAI's shape.
void send_json(Responder& responder, int status, const boost::json::object& value,
               Headers headers = {});
void send_error(Responder& responder, Metrics& metrics, const ApiError& error);

}  // namespace ondol::serve
