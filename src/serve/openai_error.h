// Thread rule: pure functions.
#pragma once

#include <boost/json/object.hpp>
#include <expected>
#include <string>

#include "base/result.h"
#include "engine/service.h"
#include "serve/http_server.h"

namespace ondol::serve {

/// An error in OpenAI's shape. `type` is one of invalid_request_error, rate_limit_error,
/// server_error; `param` the field at fault, `code` a word for programs; both may be empty.
struct ApiError {
  int status = 400;
  std::string message;
  std::string param = {};
  std::string code = {};
  std::string type = "invalid_request_error";
  Headers headers = {};
};

template <class T>
using ApiResult = std::expected<T, ApiError>;

/// A 400 that names the field.
std::unexpected<ApiError> bad_field(std::string param, std::string message, std::string code = {});

/// `{"error": {"message", "type", "param", "code"}}`; the message in well-formed UTF-8.
boost::json::object error_json(const ApiError& error);

/// What a client is told of an error of the engine: a request's fault is a 400, lack of memory and
/// shutdown a 503, the rest a 500.
ApiError to_api_error(const Error& error);
/// A full queue is a 429 with Retry-After.
ApiError to_api_error(const engine::Refusal& refusal);

}  // namespace ondol::serve
