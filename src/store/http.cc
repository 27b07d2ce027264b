#include "store/http.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <mutex>
#include <utility>

namespace ondol::store {
namespace {

constexpr uint64_t kMostIgnored = 1 << 20;

struct Url {
  std::string scheme, host, port;
};

std::optional<Url> parse_url(const std::string& text) {
  const std::unique_ptr<CURLU, void (*)(CURLU*)> handle(curl_url(), curl_url_cleanup);
  if (!handle || curl_url_set(handle.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK)
    return std::nullopt;
  const auto part = [&](CURLUPart which) {
    char* value = nullptr;
    std::string out;
    if (curl_url_get(handle.get(), which, &value, CURLU_DEFAULT_PORT) == CURLUE_OK) out = value;
    curl_free(value);
    std::ranges::transform(out, out.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return out;
  };
  return Url{part(CURLUPART_SCHEME), part(CURLUPART_HOST), part(CURLUPART_PORT)};
}

bool is_loopback(const std::string& host) {
  const bool digits =
      std::ranges::all_of(host, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
  return host == "localhost" || host == "[::1]" || (host.starts_with("127.") && digits);
}

bool is_transient(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return true;
    default:
      return false;
  }
}

bool is_transient(long status) {
  return status == 408 || status == 425 || status == 429 || status == 500 || status == 502 ||
         status == 503 || status == 504;
}

/// An address for people: without its query, where download servers keep signatures.
std::string shown(const std::string& url) { return url.substr(0, url.find('?')); }

std::string explain(long status, const std::string& full_url) {
  const std::string url = shown(full_url);
  switch (status) {
    case 401:
    case 403:
      return fmt::format(
          "the server denies access to {} ({}); if the model is gated, accept its terms on the hub "
          "and "
          "set HF_TOKEN",
          url, status);
    case 404:
      return fmt::format(
          "the server does not have {} (404); check the name, and HF_TOKEN if it is private", url);
    default:
      return fmt::format("the server answers {} with status {}", url, status);
  }
}

std::optional<uint64_t> to_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void read_header(std::string_view line, HttpHead& head) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r' || line.back() == ' '))
    line.remove_suffix(1);
  if (line.starts_with("HTTP/")) {
    head = {};
    const size_t space = line.find(' ');
    if (space != std::string_view::npos)
      head.status = static_cast<long>(to_number(line.substr(space + 1, 3)).value_or(0));
    return;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  std::string name(line.substr(0, colon));
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  if (name == "content-length") head.content_length = to_number(value);
  if (name == "content-type") head.content_type = value;
  if (name == "content-range") head.content_range = value;
  if (name == "link") head.link = value;
  if (name == "retry-after") {
    if (const auto seconds = to_number(value))
      head.retry_after = std::chrono::seconds(std::min<uint64_t>(*seconds, 60));
  }
}

HttpFailure permanent(Error error) { return {std::move(error), false, 0, {}}; }

template <class T>
void set(CURL* curl, CURLoption option, T value) {
  curl_easy_setopt(curl, option, value);
}

}  // namespace

struct HttpClient::Transfer {
  HttpSink& sink;
  const std::function<bool()>& keep_going;
  HttpHead head;
  std::optional<Error> error;  ///< of the sink
  bool begun = false;
  uint64_t ignored = 0;  ///< bytes of a body that is not for the sink
  char reason[CURL_ERROR_SIZE] = "";

  bool successful() const { return head.status >= 200 && head.status < 300; }
  bool begin() {
    if (begun) return true;
    begun = true;
    return keep(sink.begin(head));
  }
  bool keep(const Result<void>& result) {
    if (!result) error = result.error();
    return result.has_value();
  }

  static size_t on_header(char* data, size_t size, size_t n, void* self) {
    read_header({data, size * n}, static_cast<Transfer*>(self)->head);
    return size * n;
  }
  static size_t on_body(char* data, size_t size, size_t n, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    // What an error or a redirect says for people is not needed; nobody may fill the line with it,
    // though.
    if (!transfer.successful())
      return (transfer.ignored += size * n) <= kMostIgnored ? size * n : 0;
    if (!transfer.begin()) return 0;
    return transfer.keep(transfer.sink.write(std::as_bytes(std::span(data, size * n)))) ? size * n
                                                                                        : 0;
  }
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    const auto& transfer = *static_cast<Transfer*>(self);
    return transfer.keep_going && !transfer.keep_going() ? 1 : 0;
  }
};

Result<void> check_url(std::string_view endpoint, const std::string& url) {
  const auto to = parse_url(url);
  if (!to || to->host.empty()) return failed(fmt::format("'{}' is not a web address", url));
  if (to->scheme == "https") return {};
  const auto from = parse_url(std::string(endpoint));
  if (to->scheme == "http" && is_loopback(to->host) && from && from->scheme == "http" &&
      is_loopback(from->host)) {
    return {};
  }
  return failed(fmt::format(
      "'{}' is not fetched: only https is safe (plain http is for a server on this machine that "
      "HF_ENDPOINT names)",
      shown(url)));
}

bool same_origin(const std::string& a, const std::string& b) {
  const auto x = parse_url(a), y = parse_url(b);
  return x && y && x->scheme == y->scheme && x->host == y->host && x->port == y->port;
}

std::string encode_path(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

Result<HttpClient> HttpClient::make(HttpOptions options) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  if (auto allowed = check_url(options.endpoint, options.endpoint); !allowed) {
    return usage_error("HF_ENDPOINT: " + allowed.error().message);
  }
  const auto printable = [](char c) { return c > ' ' && c < 0x7f; };
  if (!std::ranges::all_of(options.token, printable)) {
    return usage_error(
        "HF_TOKEN holds a space, a line break or another character that no token has");
  }
  HttpClient client(std::move(options));
  if (!client.curl_) return failed("libcurl cannot be started");
  return client;
}

HttpClient::HttpClient(HttpOptions options)
    : options_(std::move(options)),
      curl_(curl_easy_init(), [](void* curl) { curl_easy_cleanup(curl); }) {}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;

std::expected<HttpHead, HttpFailure> HttpClient::get(const std::string& url, uint64_t offset,
                                                     HttpSink& sink) {
  constexpr int kMostRedirects = 10;
  std::string at = url;
  for (int i = 0; i <= kMostRedirects; ++i) {
    if (auto allowed = check_url(options_.endpoint, at); !allowed) {
      return std::unexpected(permanent(allowed.error()));
    }
    std::string redirect;
    auto head = get_once(at, offset, sink, redirect);
    if (!head || redirect.empty()) return head;
    at = std::move(redirect);
  }
  return std::unexpected(
      permanent({ErrorKind::kFailed, fmt::format("{} redirects in circles", shown(url))}));
}

void HttpClient::prepare(const std::string& url, const std::string& range, Transfer& transfer) {
  CURL* curl = curl_.get();
  set(curl, CURLOPT_URL, url.c_str());
  set(curl, CURLOPT_ERRORBUFFER, &transfer.reason[0]);
  set(curl, CURLOPT_NOSIGNAL, 1L);
  set(curl, CURLOPT_USERAGENT, "ondol");
  set(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  set(curl, CURLOPT_FOLLOWLOCATION,
      0L);  // by `get`, which checks each address and where the token may go
  set(curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout.count()));
  set(curl, CURLOPT_LOW_SPEED_LIMIT, 1024L);
  set(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.stall_timeout.count()));
  set(curl, CURLOPT_NOPROGRESS, 0L);
  set(curl, CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
  set(curl, CURLOPT_XFERINFODATA, &transfer);
  set(curl, CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  set(curl, CURLOPT_HEADERDATA, &transfer);
  set(curl, CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  set(curl, CURLOPT_WRITEDATA, &transfer);
  if (!range.empty()) set(curl, CURLOPT_RANGE, range.c_str());
  if (const auto parsed = parse_url(url); parsed && is_loopback(parsed->host))
    set(curl, CURLOPT_NOPROXY, "*");
}

std::expected<HttpHead, HttpFailure> HttpClient::get_once(const std::string& url, uint64_t offset,
                                                          HttpSink& sink, std::string& redirect) {
  CURL* curl = curl_.get();
  Transfer transfer{sink, options_.keep_going, {}, {}, false, 0, ""};
  // The handle outlives this call with its connections, but must not keep pointers into it.
  const std::unique_ptr<CURL, void (*)(CURL*)> forget(curl, curl_easy_reset);
  const std::string range = offset > 0 ? fmt::format("{}-", offset) : "";
  prepare(url, range, transfer);
  std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(nullptr, curl_slist_free_all);
  if (!options_.token.empty() && same_origin(url, options_.endpoint)) {
    headers.reset(curl_slist_append(nullptr, ("Authorization: Bearer " + options_.token).c_str()));
    set(curl, CURLOPT_HTTPHEADER, headers.get());
  }
  const CURLcode code = curl_easy_perform(curl);
  if (transfer.error) return std::unexpected(permanent(*transfer.error));
  if (code == CURLE_ABORTED_BY_CALLBACK) {
    return std::unexpected(permanent({ErrorKind::kInterrupted, "interrupted"}));
  }
  if (code != CURLE_OK && transfer.ignored <= kMostIgnored) {
    const char* why = transfer.reason[0] != '\0' ? &transfer.reason[0] : curl_easy_strerror(code);
    return std::unexpected(
        HttpFailure{{ErrorKind::kFailed, fmt::format("cannot fetch {}: {}", shown(url), why)},
                    is_transient(code),
                    0,
                    {}});
  }
  const HttpHead& head = transfer.head;
  if (head.status >= 300 && head.status < 400) {
    char* target = nullptr;
    curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &target);
    if (target != nullptr) redirect = target;
  }
  if (!redirect.empty()) return head;
  if (!transfer.successful()) {
    return std::unexpected(HttpFailure{{ErrorKind::kFailed, explain(head.status, url)},
                                       is_transient(head.status),
                                       head.status,
                                       head.retry_after});
  }
  if (!transfer.begin()) return std::unexpected(permanent(*transfer.error));
  return head;
}

}  // namespace ondol::store
