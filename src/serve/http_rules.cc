#include "serve/http_rules.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <ctime>

#include "serve/openai_error.h"
#include "tokenizer/utf8.h"

namespace ondol::serve {
namespace {

constexpr std::string_view kMethods = "GET, HEAD, POST, PUT, DELETE, OPTIONS";

char lower_char(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_token_char(char c) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return is_digit(c) || (lower_char(c) >= 'a' && lower_char(c) <= 'z') ||
         kOthers.find(c) != std::string_view::npos;
}

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  const char l = lower_char(c);
  return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if ((c >= 0 && c < ' ') || c == 0x7f) return std::nullopt;
    out.push_back(c);
  }
  return out;
}

/// A Host header without its port and brackets, in lower case; nothing where it is malformed.
std::optional<std::string> host_name(std::string_view host) {
  std::string_view name = host;
  std::string_view port;
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    name = host.substr(1, end - 1);
    port = host.substr(end + 1);
  } else if (const size_t colon = host.find(':'); colon != std::string_view::npos) {
    name = host.substr(0, colon);
    port = host.substr(colon);
  }
  const bool port_ok = port.empty() || (port.front() == ':' && port.size() <= 6 &&
                                        std::ranges::all_of(port.substr(1), is_digit));
  constexpr std::string_view kExtra = "-._~%:!$&'()*+,;=";
  const bool name_ok = std::ranges::all_of(name, [&](char c) {
    return is_digit(c) || (lower_char(c) >= 'a' && lower_char(c) <= 'z') ||
           kExtra.find(c) != std::string_view::npos;
  });
  if (!port_ok || !name_ok || name.empty()) return std::nullopt;
  return lower(name);
}

/// 127.0.0.0/8 in four decimal parts.
bool is_loopback_v4(std::string_view name) {
  int parts = 0;
  while (!name.empty()) {
    const size_t dot = name.find('.');
    const std::string_view part = name.substr(0, dot);
    if (part.empty() || part.size() > 3 || !std::ranges::all_of(part, is_digit)) return false;
    if (parts == 0 && part != "127") return false;
    ++parts;
    if (dot == std::string_view::npos) return parts == 4;
    name.remove_prefix(dot + 1);
  }
  return false;
}

Refusal bad(std::string message) { return {400, std::move(message), "bad_request", {}}; }

size_t count_header(const Headers& headers, std::string_view name) {
  return static_cast<size_t>(
      std::ranges::count_if(headers, [&](const auto& h) { return h.first == name; }));
}

std::optional<Refusal> check_framing(const RequestHead& head) {
  const size_t encodings = count_header(head.headers, "transfer-encoding");
  const size_t lengths = count_header(head.headers, "content-length");
  if (encodings > 0 && lengths > 0) {
    return bad("A request may have Content-Length or Transfer-Encoding, not both.");
  }
  if (encodings > 0 && head.version < 11) {
    return bad("Transfer-Encoding needs HTTP/1.1.");
  }
  if (encodings > 1 ||
      (encodings == 1 && lower(find_header(head.headers, "transfer-encoding")) != "chunked")) {
    return Refusal{501, "The only Transfer-Encoding served is: chunked.", "not_implemented", {}};
  }
  const std::string_view length = find_header(head.headers, "content-length");
  if (lengths > 1 || (lengths == 1 && (length.empty() || length.size() > 19 ||
                                       !std::ranges::all_of(length, is_digit)))) {
    return bad("Content-Length must stand there once and be a whole number.");
  }
  return std::nullopt;
}

std::string_view reason(int status) {
  struct Phrase {
    int status;
    std::string_view text;
  };
  static constexpr std::array kPhrases =
      std::to_array<Phrase>({{200, "OK"},
                             {201, "Created"},
                             {202, "Accepted"},
                             {204, "No Content"},
                             {206, "Partial Content"},
                             {301, "Moved Permanently"},
                             {302, "Found"},
                             {304, "Not Modified"},
                             {307, "Temporary Redirect"},
                             {400, "Bad Request"},
                             {401, "Unauthorized"},
                             {403, "Forbidden"},
                             {404, "Not Found"},
                             {405, "Method Not Allowed"},
                             {408, "Request Timeout"},
                             {409, "Conflict"},
                             {411, "Length Required"},
                             {413, "Content Too Large"},
                             {415, "Unsupported Media Type"},
                             {417, "Expectation Failed"},
                             {422, "Unprocessable Content"},
                             {429, "Too Many Requests"},
                             {431, "Request Header Fields Too Large"},
                             {500, "Internal Server Error"},
                             {501, "Not Implemented"},
                             {503, "Service Unavailable"},
                             {504, "Gateway Timeout"},
                             {505, "HTTP Version Not Supported"}});
  const auto* found = std::ranges::find(kPhrases, status, &Phrase::status);
  return found == kPhrases.end() ? "Status" : found->text;
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  for (const char c : value) out.push_back((c >= 0 && c < ' ' && c != '\t') || c == 0x7f ? ' ' : c);
  out.append("\r\n");
}

}  // namespace

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), lower_char);
  return out;
}

std::string_view find_header(const Headers& headers, std::string_view name) {
  const auto found = std::ranges::find_if(headers, [&](const auto& h) { return h.first == name; });
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

std::string_view HttpRequest::header(std::string_view name) const {
  return find_header(headers, name);
}

std::optional<Target> parse_target(std::string_view target) {
  Target out;
  if (target == "*") {
    out.path = "*";
    return out;
  }
  if (!target.starts_with('/')) {
    const std::string scheme = lower(target.substr(0, 8));
    const size_t skip = scheme.starts_with("http://") ? 7 : scheme == "https://" ? 8 : 0;
    if (skip == 0) return std::nullopt;
    target.remove_prefix(skip);
    const size_t end = std::min(target.find_first_of("/?"), target.size());
    out.authority = target.substr(0, end);
    if (!host_name(out.authority)) return std::nullopt;
    target.remove_prefix(end);
  }
  if (target.find('#') != std::string_view::npos) return std::nullopt;
  const size_t question = target.find('?');
  if (question != std::string_view::npos) out.query = target.substr(question + 1);
  auto path = percent_decode(target.substr(0, question));
  if (!path || !tokenizer::is_valid_utf8(*path) || !tokenizer::is_valid_utf8(out.query))
    return std::nullopt;
  out.path = path->empty() ? "/" : *std::move(path);
  return out;
}

std::optional<Refusal> check_head(const RequestHead& head) {
  if (auto framing = check_framing(head)) return framing;
  const size_t hosts = count_header(head.headers, "host");
  if (hosts > 1 || (hosts == 0 && head.version >= 11)) {
    return bad("A request must have exactly one Host header.");
  }
  const std::string_view host = find_header(head.headers, "host");
  if (hosts == 1 && !host.empty() && !host_name(host)) {
    return bad("The Host header is malformed.");
  }
  if (head.method == "TRACE" || head.method == "CONNECT") {
    return Refusal{405,
                   "This method is not served.",
                   "method_not_allowed",
                   {{"Allow", std::string(kMethods)}}};
  }
  const std::string expect = lower(find_header(head.headers, "expect"));
  if (!expect.empty() && expect != "100-continue") {
    return Refusal{417, "The only expectation served is: 100-continue.", "expectation_failed", {}};
  }
  const std::string coding = lower(find_header(head.headers, "content-encoding"));
  if (!coding.empty() && coding != "identity") {
    return Refusal{415,
                   "The body must not be compressed: send it without Content-Encoding.",
                   "unsupported_encoding",
                   {}};
  }
  return std::nullopt;
}

std::optional<Refusal> check_policy(const HttpOptions& options, const ApiKeys* keys,
                                    const RequestHead& head, const Target& target,
                                    std::string& client) {
  const bool reads = head.method == "GET" || head.method == "HEAD";
  if (keys != nullptr) {
    if (head.method == "OPTIONS" || (reads && target.path == "/health")) return std::nullopt;
    const auto name = keys->find(bearer_key(find_header(head.headers, "authorization")));
    if (!name) {
      return Refusal{401,
                     "This server asks for an API key: send the header Authorization: Bearer KEY.",
                     "invalid_api_key",
                     {{"WWW-Authenticate", "Bearer"}}};
    }
    client = *name;
    return std::nullopt;
  }
  // Without keys whoever reaches this machine may ask; pages of other sites must not.
  const std::string_view host =
      target.authority.empty() ? find_header(head.headers, "host") : target.authority;
  if (!host.empty() && !is_own_host(host, options.host)) {
    return Refusal{403,
                   "The Host header names another machine. Without API keys this server answers "
                   "only to localhost, so that web pages cannot reach it under names of their own.",
                   "host_not_allowed",
                   {}};
  }
  const std::string_view origin = find_header(head.headers, "origin");
  if (!origin.empty() && !reads && head.method != "OPTIONS" && !same_origin(origin, host) &&
      !origin_allowed(options.cors_origins, origin)) {
    return Refusal{403,
                   "A page of another site asked. List its origin to allow it, or use API keys.",
                   "origin_not_allowed",
                   {}};
  }
  return std::nullopt;
}

bool is_own_host(std::string_view host, std::string_view bound) {
  const auto name = host_name(host);
  if (!name) return false;
  const std::string own = lower(bound);
  return *name == "localhost" || name->ends_with(".localhost") || *name == "::1" ||
         is_loopback_v4(*name) || *name == own || fmt::format("[{}]", *name) == own;
}

bool is_origin(std::string_view text) {
  if (text == "*" || text == "null") return true;
  const size_t colon = text.find("://");
  if (colon == std::string_view::npos || colon == 0) return false;
  const bool scheme_ok = std::ranges::all_of(text.substr(0, colon), is_token_char);
  return scheme_ok && host_name(text.substr(colon + 3)).has_value();
}

bool origin_allowed(const std::vector<std::string>& origins, std::string_view origin) {
  const std::string wanted = lower(origin);
  return std::ranges::any_of(
      origins, [&](const std::string& entry) { return entry == "*" || lower(entry) == wanted; });
}

bool same_origin(std::string_view origin, std::string_view host) {
  const size_t colon = origin.find("://");
  return colon != std::string_view::npos && !host.empty() &&
         lower(origin.substr(colon + 3)) == lower(host);
}

Headers cors_headers(const std::vector<std::string>& origins, std::string_view origin) {
  Headers out;
  if (origins.empty()) return out;
  out.emplace_back("Vary", "Origin");
  if (origin.empty() || !origin_allowed(origins, origin)) return out;
  out.emplace_back("Access-Control-Allow-Origin", origin);
  out.emplace_back("Access-Control-Expose-Headers", "*");
  return out;
}

Headers options_headers(const std::vector<std::string>& origins, const RequestHead& head) {
  const std::string_view origin = find_header(head.headers, "origin");
  Headers out = cors_headers(origins, origin);
  out.emplace_back("Allow", kMethods);
  const bool asks = !find_header(head.headers, "access-control-request-method").empty();
  if (!asks || origins.empty() || origin.empty() || !origin_allowed(origins, origin)) return out;
  out.emplace_back("Access-Control-Allow-Methods", kMethods);
  std::string allowed = "authorization, content-type";
  // Clients add headers of their own; a listed page may send any.
  const std::string_view wanted = find_header(head.headers, "access-control-request-headers");
  const bool clean = std::ranges::all_of(
      wanted, [](char c) { return is_token_char(c) || c == ',' || c == ' ' || c == '\t'; });
  if (clean && !wanted.empty()) allowed.append(", ").append(wanted);
  out.emplace_back("Access-Control-Allow-Headers", allowed);
  out.emplace_back("Access-Control-Max-Age", "600");
  return out;
}

std::string error_body(int status, std::string_view message, std::string_view code) {
  return boost::json::serialize(
      error_json({.status = status,
                  .message = std::string(message),
                  .code = std::string(code),
                  .type = status >= 500 ? "server_error" : "invalid_request_error"}));
}

std::string http_date(int64_t unix_seconds) {
  return fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(unix_seconds));
}

std::string response_head(int status, const Headers& headers, const Framing& framing) {
  static constexpr std::array<std::string_view, 6> kOurs = {
      "content-length", "transfer-encoding",     "connection", "keep-alive",
      "date",           "x-content-type-options"};
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", status, reason(status));
  bool cached = false;
  for (const auto& [name, value] : headers) {
    const std::string key = lower(name);
    const bool clean = !key.empty() && std::ranges::all_of(key, is_token_char);
    if (!clean || std::ranges::find(kOurs, key) != kOurs.end()) continue;
    cached = cached || key == "cache-control";
    append_header(out, name, value);
  }
  append_header(out, "Date", http_date(std::time(nullptr)));
  append_header(out, "X-Content-Type-Options", "nosniff");
  if (!cached) append_header(out, "Cache-Control", "no-store");
  if (framing.body == Framing::Body::kLength) {
    append_header(out, "Content-Length", std::to_string(framing.length));
  } else if (framing.body == Framing::Body::kChunked) {
    append_header(out, "Transfer-Encoding", "chunked");
  }
  append_header(out, "Connection", framing.keep_alive ? "keep-alive" : "close");
  return out.append("\r\n");
}

}  // namespace ondol::serve
