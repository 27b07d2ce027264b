#include <boost/json.hpp>

#include "chat/template.h"

namespace ondol::chat {
namespace json = boost::json;
namespace {

/// The member `name` of an object, or null.
json::value* member(json::value& value, std::string_view name) {
  json::object* object = value.if_object();
  return object == nullptr ? nullptr : object->if_contains(name);
}

void parse_call(json::value& call) {
  json::value* function = member(call, "function");
  json::value* arguments = function == nullptr ? nullptr : member(*function, "arguments");
  if (arguments == nullptr || !arguments->is_string()) {
    return;
  }
  json::error_code error;
  json::value parsed = json::parse(arguments->get_string(), error);
  if (!error && parsed.is_object()) {
    *arguments = std::move(parsed);
  }
}

}  // namespace

void parse_tool_arguments(json::object& request) {
  json::value* messages = request.if_contains("messages");
  if (messages == nullptr || !messages->is_array()) {
    return;
  }
  for (json::value& message : messages->get_array()) {
    json::value* calls = member(message, "tool_calls");
    if (calls != nullptr && calls->is_array()) {
      for (json::value& call : calls->get_array()) {
        parse_call(call);
      }
    }
  }
}

}  // namespace ondol::chat
