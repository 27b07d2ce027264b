// Thread rule: pure functions.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

namespace ondol::serve {

/// The event stream format (WHATWG HTML, "Server-sent events"), as OpenAI's API uses it.
inline constexpr std::string_view kEventStream = "text/event-stream; charset=utf-8";
/// The last event of a successful stream.
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";
/// A comment that keeps proxies and clients from giving up a quiet connection.
inline constexpr std::string_view kSseKeepAlive = ": keep-alive\n\n";

/// JSON on one line, in which everything that some client takes for a line end is escaped: control
/// characters, U+0085, U+2028 and U+2029.
std::string to_json_line(const boost::json::object& value);

/// One event with one data line.
std::string sse_event(const boost::json::object& value);

}  // namespace ondol::serve
