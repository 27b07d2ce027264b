#include "serve/openai_error.h"

#include "tokenizer/utf8.h"

namespace ondol::serve {
namespace {

boost::json::value text_or_null(const std::string& text) {
  return text.empty() ? boost::json::value() : boost::json::value(text);
}

ApiError server_error(int status, std::string message, Headers headers = {}) {
  return {.status = status,
          .message = std::move(message),
          .type = "server_error",
          .headers = std::move(headers)};
}

}  // namespace

std::unexpected<ApiError> bad_field(std::string param, std::string message, std::string code) {
  return std::unexpected(
      ApiError{.message = std::move(message), .param = std::move(param), .code = std::move(code)});
}

boost::json::object error_json(const ApiError& error) {
  return {{"error",
           {{"message", tokenizer::replace_ill_formed(error.message)},
            {"type", error.type},
            {"param", text_or_null(error.param)},
            {"code", text_or_null(error.code)}}}};
}

ApiError to_api_error(const Error& error) {
  switch (error.kind) {
    case ErrorKind::kUsage:
    case ErrorKind::kRefused:
      return {.message = error.message};
    case ErrorKind::kNoMemory:
    case ErrorKind::kInterrupted:
      return server_error(503, error.message, {{"Retry-After", "5"}});
    case ErrorKind::kFailed:
      break;
  }
  return server_error(500, error.message);
}

ApiError to_api_error(const engine::Refusal& refusal) {
  const Headers retry = {{"Retry-After", std::to_string(refusal.retry_after)}};
  switch (refusal.kind) {
    case engine::Refusal::Kind::kTooMany:
      return {.message = refusal.message, .param = "n"};
    case engine::Refusal::Kind::kStopping:
      return server_error(503, refusal.message, retry);
    case engine::Refusal::Kind::kFull:
      break;
  }
  return {.status = 429,
          .message = refusal.message,
          .code = "queue_full",
          .type = "rate_limit_error",
          .headers = retry};
}

}  // namespace ondol::serve
