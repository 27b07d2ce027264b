#include "serve/openai_json.h"

#include <fmt/format.h>

#include <boost/json/basic_parser_impl.hpp>
#include <cmath>

#include "tokenizer/utf8.h"

namespace ondol::serve {
namespace json = boost::json;
namespace {

/// Looks at the keys of each object while a text is parsed; keeps nothing else.
class KeyWatcher {
 public:
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);

  using Code = json::error_code;
  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code&) {
    keys_.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t, Code&) {
    keys_.pop_back();
    return true;
  }
  bool on_array_begin(Code&) { return true; }
  bool on_array_end(std::size_t, Code&) { return true; }
  bool on_key_part(json::string_view part, std::size_t, Code&) {
    key_ += std::string_view(part);
    return true;
  }
  bool on_key(json::string_view rest, std::size_t, Code& code) {
    key_ += std::string_view(rest);
    const auto [at, is_new] = keys_.back().insert(std::exchange(key_, {}));
    if (is_new) return true;
    twice_ = *at;
    code = json::error::extra_data;  // any error stops the parser
    return false;
  }
  bool on_string_part(json::string_view, std::size_t, Code&) { return true; }
  bool on_string(json::string_view, std::size_t, Code&) { return true; }
  bool on_number_part(json::string_view, Code&) { return true; }
  bool on_int64(std::int64_t, json::string_view, Code&) { return true; }
  bool on_uint64(std::uint64_t, json::string_view, Code&) { return true; }
  bool on_double(double, json::string_view, Code&) { return true; }
  bool on_bool(bool, Code&) { return true; }
  bool on_null(Code&) { return true; }
  bool on_comment_part(json::string_view, Code&) { return true; }
  bool on_comment(json::string_view, Code&) { return true; }

  const std::optional<std::string>& twice() const { return twice_; }

 private:
  std::vector<std::set<std::string, std::less<>>> keys_;
  std::string key_;
  std::optional<std::string> twice_;
};

json::parse_options strict() {
  json::parse_options options;
  options.max_depth = kMaxJsonDepth;
  return options;
}

ApiResult<void> check_text(std::string_view body) {
  if (const auto at = tokenizer::ill_formed_at(body))
    return bad_field({}, fmt::format("the body is not UTF-8 at byte {}; JSON is", *at));
  json::basic_parser<KeyWatcher> parser(strict());
  json::error_code code;
  size_t used = parser.write_some(false, body.data(), body.size(), code);
  if (const auto& key = parser.handler().twice())
    return bad_field(*key, fmt::format("the key '{}' stands twice in an object", *key));
  if (code == json::error::too_deep) {
    return bad_field({}, fmt::format("the body is nested more than {} deep", kMaxJsonDepth));
  }
  if (code) {
    return bad_field({}, fmt::format("the body is no JSON: {} near byte {}", code.message(), used));
  }
  while (used < body.size() && std::string_view(" \t\r\n").find(body[used]) != body.npos) ++used;
  if (used < body.size())
    return bad_field({}, fmt::format("the body goes on after its JSON value, at byte {}", used));
  return {};
}

}  // namespace

ApiResult<json::object> parse_body(std::string_view body) {
  if (auto good = check_text(body); !good) return std::unexpected(std::move(good).error());
  json::error_code code;
  json::value value = json::parse(body, code, {}, strict());
  if (code) return bad_field({}, fmt::format("the body is no JSON: {}", code.message()));
  if (!value.is_object())
    return bad_field({}, fmt::format("the body is {}; it must be an object", kind_of(value)));
  return std::move(value.get_object());
}

std::string_view kind_of(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "a truth value";
    case json::kind::int64:
    case json::kind::uint64:
    case json::kind::double_:
      return "a number";
    case json::kind::string:
      return "a text";
    case json::kind::array:
      return "a list";
    case json::kind::object:
      break;
  }
  return "an object";
}

std::optional<int64_t> whole_number(const json::value& value) {
  if (const auto* whole = value.if_int64()) return *whole;
  const auto* real = value.if_double();
  // Below 2^53 every whole double is the number that was written.
  if (real == nullptr || std::trunc(*real) != *real || std::abs(*real) > 9007199254740992.0)
    return {};
  return static_cast<int64_t>(*real);
}

const json::value* Fields::find(std::string_view name) {
  read_.emplace(name);
  const json::value* value = body_.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void Fields::fail(std::string_view param, std::string message) {
  if (!error_) error_ = ApiError{.message = std::move(message), .param = std::string(param)};
}

double Fields::number(std::string_view name, double otherwise, double low, double high) {
  const json::value* value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) {
    fail(name, fmt::format("{} is {}; it must be a number", name, kind_of(*value)));
    return otherwise;
  }
  const double number = value->to_number<double>();
  if (!(number >= low && number <= high)) {
    fail(name, fmt::format("{} is {}; it must be from {} to {}", name, number, low, high));
    return otherwise;
  }
  return number;
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t low, int64_t high) {
  const json::value* value = find(name);
  if (value == nullptr) return {};
  const auto number = whole_number(*value);
  if (number && *number >= low && *number <= high) return number;
  const std::string is = number               ? std::to_string(*number)
                         : value->is_number() ? json::serialize(*value)
                                              : std::string(kind_of(*value));
  fail(name, fmt::format("{} is {}; it must be a whole number from {} to {}", name, is, low, high));
  return {};
}

bool Fields::boolean(std::string_view name, bool otherwise) {
  const json::value* value = find(name);
  if (value == nullptr) return otherwise;
  if (const bool* truth = value->if_bool()) return *truth;
  fail(name, fmt::format("{} is {}; it must be true or false", name, kind_of(*value)));
  return otherwise;
}

std::optional<std::string> Fields::text(std::string_view name) {
  const json::value* value = find(name);
  if (value == nullptr) return {};
  if (const auto* text = value->if_string()) return std::string(*text);
  fail(name, fmt::format("{} is {}; it must be a text", name, kind_of(*value)));
  return {};
}

const json::array* Fields::array(std::string_view name) {
  const json::value* value = find(name);
  if (value != nullptr && !value->is_array())
    fail(name, fmt::format("{} is {}; it must be a list", name, kind_of(*value)));
  return value == nullptr ? nullptr : value->if_array();
}

const json::object* Fields::object(std::string_view name) {
  const json::value* value = find(name);
  if (value != nullptr && !value->is_object())
    fail(name, fmt::format("{} is {}; it must be an object", name, kind_of(*value)));
  return value == nullptr ? nullptr : value->if_object();
}

std::vector<std::string> Fields::unread() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : body_) {
    if (!read_.contains(std::string_view(name)) && !value.is_null()) names.emplace_back(name);
  }
  return names;
}

}  // namespace ondol::serve
