// Thread rule: pure functions; a Fields belongs to one thread.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "serve/openai_error.h"

namespace ondol::serve {

/// Values inside each other that a body may have.
inline constexpr size_t kMaxJsonDepth = 64;

/// A request body: one JSON object (RFC 8259), UTF-8, no key twice in an object, at most
/// kMaxJsonDepth deep. The error says where it goes wrong.
ApiResult<boost::json::object> parse_body(std::string_view body);

/// Reads the fields of a body and remembers which were asked for. A field that is null counts as
/// not given. The first mistake is kept and names its field; reading goes on with defaults, so that
/// one look at error() at the end suffices.
class Fields {
 public:
  explicit Fields(const boost::json::object& body) : body_(body) {}

  /// The value, or null where the field is not given.
  const boost::json::value* find(std::string_view name);
  double number(std::string_view name, double otherwise, double low, double high);
  /// A whole number; 4.0 is one.
  std::optional<int64_t> integer(std::string_view name, int64_t low, int64_t high);
  bool boolean(std::string_view name, bool otherwise);
  std::optional<std::string> text(std::string_view name);
  const boost::json::array* array(std::string_view name);
  const boost::json::object* object(std::string_view name);

  /// Keeps a mistake; the first one counts.
  void fail(std::string_view param, std::string message);
  const std::optional<ApiError>& error() const { return error_; }
  /// Fields that were given but never asked for.
  std::vector<std::string> unread() const;

 private:
  const boost::json::object& body_;
  std::set<std::string, std::less<>> read_;
  std::optional<ApiError> error_;
};

/// The whole number that a JSON value is, if it is one and fits.
std::optional<int64_t> whole_number(const boost::json::value& value);
/// "a text", "a number", ...: for messages.
std::string_view kind_of(const boost::json::value& value);

}  // namespace ondol::serve
