// Thread rule: an HttpClient belongs to one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ondol::store {

/// The head of an answer, as far as downloads need it.
struct HttpHead {
  long status = 0;
  std::optional<uint64_t> content_length;
  std::string content_type, content_range, link;
  std::optional<std::chrono::seconds> retry_after;
};

/// Takes the body of a successful answer. An error ends the transfer and becomes its outcome.
class HttpSink {
 public:
  virtual ~HttpSink() = default;
  /// Once, before the body (also of an empty one).
  virtual Result<void> begin(const HttpHead& head) = 0;
  virtual Result<void> write(std::span<const std::byte> bytes) = 0;
};

struct HttpFailure {
  Error error;
  bool transient = false;  ///< trying again may help
  long status = 0;         ///< of an answer that was an error; 0 if there was none
  std::optional<std::chrono::seconds> retry_after;
};

struct HttpOptions {
  std::string
      endpoint;       ///< the server that is trusted with `token`, such as https://huggingface.co
  std::string token;  ///< bearer token; empty: none
  std::chrono::milliseconds connect_timeout{15'000};
  std::chrono::seconds stall_timeout{30};  ///< less than 1 KiB/s for so long ends the transfer
  std::function<bool()>
      keep_going;  ///< asked about once a second at least; false ends the transfer
};

/// GET over HTTPS, or over HTTP if the endpoint itself is on this machine (a local mirror, a test).
class HttpClient {
 public:
  /// Usage error if the endpoint is not an address that may be used.
  static Result<HttpClient> make(HttpOptions options);
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;

  /// Fetches `url` from byte `offset` on, following redirects (at most ten). The token goes to the
  /// endpoint's own host and port only.
  std::expected<HttpHead, HttpFailure> get(const std::string& url, uint64_t offset, HttpSink& sink);

 private:
  struct Transfer;
  explicit HttpClient(HttpOptions options);
  /// Sets the handle up for one transfer; `url`, `range` and `transfer` must outlive it.
  void prepare(const std::string& url, const std::string& range, Transfer& transfer);
  std::expected<HttpHead, HttpFailure> get_once(const std::string& url, uint64_t offset,
                                                HttpSink& sink, std::string& redirect);
  HttpOptions options_;
  std::unique_ptr<void, void (*)(void*)> curl_;
};

/// Whether the client of `endpoint` may fetch `url`: https, or http on this machine where the
/// endpoint is so too. Otherwise an error that says why not.
Result<void> check_url(std::string_view endpoint, const std::string& url);

/// Whether both addresses have the same scheme, host and port.
bool same_origin(const std::string& a, const std::string& b);

/// `path` with everything but unreserved characters and slashes percent-encoded (RFC 3986).
std::string encode_path(std::string_view path);

}  // namespace ondol::store
