// Thread rule: pure functions over values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api_keys.h"
#include "serve/http_server.h"

namespace ondol::serve {

/// What a request asks for (RFC 9112, section 3.2).
struct Target {
  std::string path;       ///< percent-decoded, UTF-8, begins with "/" (or is "*")
  std::string query;      ///< as sent
  std::string authority;  ///< of the absolute form; it stands for the Host header
};
/// Nothing for what is no origin form, absolute form or "*", for a broken escape, for a control
/// character and for bytes that are not UTF-8.
std::optional<Target> parse_target(std::string_view target);

/// The head of a request as it was sent, header names in lower case.
struct RequestHead {
  std::string method;
  std::string target;
  int version = 11;  ///< 10 or 11
  Headers headers;
};

/// An answer of the server itself, in OpenAI's shape.
struct Refusal {
  int status = 400;
  std::string message;
  std::string code;
  Headers headers;
};

/// What is wrong with a head before anybody looks at its meaning: framing that two parties could
/// read differently (RFC 9112, section 6), the Host header, encodings, methods and expectations
/// that are not served.
std::optional<Refusal> check_head(const RequestHead& head);

/// Whether a client may ask: by its key where keys are asked for (`client` becomes the key's name;
/// OPTIONS and GET /health are open), and otherwise by the Host and Origin headers, so that pages
/// of other sites cannot use a server that trusts this machine.
std::optional<Refusal> check_policy(const HttpOptions& options, const ApiKeys* keys,
                                    const RequestHead& head, const Target& target,
                                    std::string& client);

/// Whether a Host header names this machine itself ("localhost", 127.0.0.0/8, [::1], or the name
/// that was bound), whatever the port. Pages of other sites that make their own name point here
/// (DNS rebinding) fail this.
bool is_own_host(std::string_view host, std::string_view bound);

/// Whether a page of `origin` may ask: it is listed, or the list has "*".
bool origin_allowed(const std::vector<std::string>& origins, std::string_view origin);
/// Whether an Origin header names the server itself, as its Host header does.
bool same_origin(std::string_view origin, std::string_view host);
/// Whether an entry of a list of origins is one: "*", or scheme://host[:port].
bool is_origin(std::string_view text);
/// What an answer to a page of `origin` carries (Fetch standard); "Vary" alone where it is not
/// allowed, nothing where no list is kept.
Headers cors_headers(const std::vector<std::string>& origins, std::string_view origin);
/// The answer to OPTIONS: what may be done, and to a page that asks, whether it may.
Headers options_headers(const std::vector<std::string>& origins, const RequestHead& head);

/// {"error":{"message","type","param","code"}}; an empty code becomes null.
std::string error_body(int status, std::string_view message, std::string_view code);

/// How an answer is framed.
struct Framing {
  enum class Body { kNone, kLength, kChunked, kUntilClose };
  Body body = Body::kLength;
  uint64_t length = 0;
  bool keep_alive = true;
};
/// Status line and headers with the empty line. Headers that frame the message are the server's
/// alone; a line break in a value becomes a blank.
std::string response_head(int status, const Headers& headers, const Framing& framing);

/// "Wed, 02 Dec 2026 16:00:00 GMT" (RFC 9110, section 5.6.7).
std::string http_date(int64_t unix_seconds);

std::string lower(std::string_view text);
/// The value of the first header of that name (lower case); empty where there is none.
std::string_view find_header(const Headers& headers, std::string_view name);

}  // namespace ondol::serve
