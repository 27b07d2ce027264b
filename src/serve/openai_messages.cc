// The conversation of a chat request: messages, tools, options of the template.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "chat/template.h"
#include "serve/openai_request.h"

namespace ondol::serve {
namespace json = boost::json;
namespace {

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant",
                                                    "tool"};
constexpr size_t kLongestName = 64;

/// The text of a list of parts: all of them, in order.
std::string join_parts(Fields& fields, const std::string& where, const json::array& parts) {
  std::string text;
  if (parts.empty()) fields.fail(where, where + " is an empty list; give text");
  for (const json::value& part : parts) {
    const json::object* object = part.if_object();
    const json::value* type = object == nullptr ? nullptr : object->if_contains("type");
    if (type == nullptr || !type->is_string()) {
      fields.fail(where, where + " holds a part without a type");
      return {};
    }
    const std::string_view kind = type->get_string();
    if (kind != "text" && kind != "refusal") {
      fields.fail(where, fmt::format("{} holds a part of type {}, which this model cannot read; it "
                                     "reads text",
                                     where, kind));
      return {};
    }
    const json::value* value = object->if_contains(kind);
    if (value == nullptr || !value->is_string()) {
      fields.fail(where, fmt::format("{} holds a part of type {} without its text", where, kind));
      return {};
    }
    text += std::string_view(value->get_string());
  }
  return text;
}

/// Content as one text. Without one only what called tools may stand; templates get empty text
/// there, since many cannot take none.
std::string read_content(Fields& fields, const std::string& where, const json::object& message,
                         bool may_lack) {
  const json::value* content = message.if_contains("content");
  if (content == nullptr || content->is_null()) {
    if (!may_lack) fields.fail(where, where + " is missing; give a text");
    return {};
  }
  if (const auto* text = content->if_string()) return std::string(*text);
  if (const auto* parts = content->if_array()) return join_parts(fields, where, *parts);
  fields.fail(where, fmt::format("{} is {}; it must be a text or a list of parts", where,
                                 kind_of(*content)));
  return {};
}

void check_tool_calls(Fields& fields, const std::string& where, const json::value& calls) {
  const json::array* list = calls.if_array();
  if (list == nullptr) {
    fields.fail(where, fmt::format("{} is {}; it must be a list", where, kind_of(calls)));
    return;
  }
  for (const json::value& call : *list) {
    const json::object* object = call.if_object();
    const json::value* function = object == nullptr ? nullptr : object->if_contains("function");
    const json::object* inner = function == nullptr ? nullptr : function->if_object();
    const json::value* name = inner == nullptr ? nullptr : inner->if_contains("name");
    if (name == nullptr || !name->is_string()) {
      fields.fail(where, where + " holds a call without function.name");
      return;
    }
  }
}

json::object read_message(Fields& fields, size_t index, const json::value& value) {
  const std::string where = fmt::format("messages[{}]", index);
  const json::object* message = value.if_object();
  if (message == nullptr) {
    fields.fail(where, fmt::format("{} is {}; it must be an object", where, kind_of(value)));
    return {};
  }
  const json::value* role = message->if_contains("role");
  if (role == nullptr || !role->is_string()) {
    fields.fail(where + ".role", where + ".role is missing; give system, user, assistant or tool");
    return {};
  }
  const std::string_view name = role->get_string();
  if (std::ranges::find(kRoles, name) == kRoles.end()) {
    fields.fail(where + ".role", fmt::format("{}.role is '{}'; it must be system, developer, user, "
                                             "assistant or tool",
                                             where, name));
    return {};
  }
  json::object out = *message;
  if (name == "developer") out["role"] = "system";
  const json::value* calls = message->if_contains("tool_calls");
  const bool has_calls = calls != nullptr && !calls->is_null();
  if (has_calls) {
    check_tool_calls(fields, where + ".tool_calls", *calls);
  } else {
    out.erase("tool_calls");
  }
  const json::value* refusal = message->if_contains("refusal");
  const bool has_refusal = refusal != nullptr && refusal->is_string();
  out["content"] = read_content(fields, where + ".content", *message,
                                name == "assistant" && (has_calls || has_refusal));
  return out;
}

bool is_function_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

/// The names of the functions in `tools`, checked.
std::vector<std::string> read_tools(Fields& fields, const json::array& tools) {
  std::vector<std::string> names;
  for (size_t i = 0; i < tools.size() && !fields.error(); ++i) {
    const std::string where = fmt::format("tools[{}]", i);
    const json::object* tool = tools[i].if_object();
    const json::value* type = tool == nullptr ? nullptr : tool->if_contains("type");
    if (type == nullptr || !type->is_string() || type->get_string() != "function") {
      fields.fail(where, where + " must be of type function");
      break;
    }
    const json::value* function = tool->if_contains("function");
    const json::object* inner = function == nullptr ? nullptr : function->if_object();
    const json::value* name = inner == nullptr ? nullptr : inner->if_contains("name");
    if (name == nullptr || !name->is_string() || !is_function_name(name->get_string())) {
      fields.fail(where, fmt::format("{}.function.name must be 1 to {} of a-z, A-Z, 0-9, _ and -",
                                     where, kLongestName));
      break;
    }
    const json::value* parameters = inner->if_contains("parameters");
    if (parameters != nullptr && !parameters->is_null() && !parameters->is_object()) {
      fields.fail(where, where + ".function.parameters must be an object");
    }
    std::string text(name->get_string());
    if (std::ranges::find(names, text) != names.end())
      fields.fail(where, fmt::format("{}: there are two functions named {}", where, text));
    names.push_back(std::move(text));
  }
  return names;
}

/// "none", "auto", "required" or the name of a function ("function:NAME").
std::string read_choice(Fields& fields, const std::vector<std::string>& names) {
  const json::value* choice = fields.find("tool_choice");
  if (choice == nullptr) return "auto";
  if (const auto* word = choice->if_string()) {
    if (*word == "none" || *word == "auto") return std::string(*word);
    if (*word == "required") {
      if (names.empty()) fields.fail("tool_choice", "tool_choice is required, but tools is empty");
      return "required";
    }
  }
  const json::object* object = choice->if_object();
  const json::value* function = object == nullptr ? nullptr : object->if_contains("function");
  const json::object* inner = function == nullptr ? nullptr : function->if_object();
  const json::value* name = inner == nullptr ? nullptr : inner->if_contains("name");
  if (name == nullptr || !name->is_string()) {
    fields.fail("tool_choice",
                "tool_choice must be none, auto, required or {\"type\": \"function\", "
                "\"function\": {\"name\": ...}}");
    return "none";
  }
  const std::string text(name->get_string());
  if (std::ranges::find(names, text) == names.end())
    fields.fail("tool_choice", fmt::format("tool_choice names {}, which is not in tools", text));
  return "function:" + text;
}

/// Variables for the template that the client sets: chat_template_kwargs and reasoning_effort.
json::object read_options(Fields& fields, std::string_view chat_template) {
  json::object options;
  if (const json::object* given = fields.object("chat_template_kwargs")) {
    for (const auto& [key, value] : *given) {
      const std::string_view name = key;
      // Those decide what counts as a control token, or what the end of the prompt is.
      if (name.ends_with("_token") || name == "add_generation_prompt" ||
          name == "continue_final_message" || name == "messages" || name == "tools") {
        fields.fail("chat_template_kwargs",
                    fmt::format("chat_template_kwargs must not set {}", name));
      }
      options[key] = value;
    }
  }
  if (const auto effort = fields.text("reasoning_effort"); effort && *effort != "none") {
    if (chat_template.find("reasoning_effort") == chat_template.npos) {
      fields.fail("reasoning_effort",
                  "reasoning_effort: the template of this model knows no such setting; leave it "
                  "out");
    }
    options["reasoning_effort"] = *effort;
  }
  return options;
}

}  // namespace

void read_conversation(Fields& fields, std::string_view chat_template, json::object& conversation) {
  const json::array* messages = fields.array("messages");
  if (messages == nullptr) {
    fields.fail("messages", "messages is missing; give a list of messages");
  } else if (messages->empty()) {
    fields.fail("messages", "messages is empty; give at least one message");
  }
  json::array read;
  for (size_t i = 0; messages != nullptr && i < messages->size() && !fields.error(); ++i)
    read.push_back(read_message(fields, i, (*messages)[i]));
  const json::array* tools = fields.array("tools");
  const auto names = tools == nullptr ? std::vector<std::string>() : read_tools(fields, *tools);
  const std::string choice = read_choice(fields, names);
  fields.boolean("parallel_tool_calls", true);
  if (!names.empty() && choice != "none") {
    fields.fail("tools",
                "tools: calls in the answer are not supported by this server; leave tools "
                "out, or set tool_choice to none");
  }
  conversation["messages"] = std::move(read);
  conversation["options"] = read_options(fields, chat_template);
  chat::parse_tool_arguments(conversation);
}

}  // namespace ondol::serve
