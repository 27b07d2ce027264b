// Thread rule: a HttpServer is started, stopped and destroyed by one thread and has threads of its
// own; handlers are called on those and must not block; a Responder may be used from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ondol::serve {

using Headers = std::vector<std::pair<std::string, std::string>>;

/// A request that came whole, within the limits. HEAD comes as GET, the body of its answer is left
/// out; OPTIONS is answered by the server itself; `authorization` is not among the headers.
struct HttpRequest {
  std::string method;  ///< "GET", ...
  std::string path;    ///< decoded, without the query
  std::string query;   ///< as sent, without the question mark
  Headers headers;     ///< names in lower case
  std::string body;
  std::string client;  ///< the name of the API key it came with; empty where no keys are asked for
  /// The value of a header (its name in lower case); empty where there is none.
  std::string_view header(std::string_view name) const;
};

/// What an answer took, for those who keep records.
struct AnswerFigures {
  int prompt_tokens = 0;
  int cached_tokens = 0;
  int completion_tokens = 0;
  double first_token_seconds = 0;  ///< 0 where there was none
};

/// The answer to one request: send(), or start_stream(), any number of write(), end(). What comes
/// after the client has gone is dropped, and so is a second answer. A Responder that is destroyed
/// without an answer answers 500; one that is destroyed before end() cuts the connection, so that
/// the answer does not look complete. Length, transfer encoding, connection, date and
/// `X-Content-Type-Options` are the server's; `Cache-Control` is no-store unless a header says
/// otherwise. A client that closes its sending side counts as gone.
class Responder {
 public:
  virtual ~Responder() = default;
  /// The whole answer.
  virtual void send(int status, Headers headers, std::string body) = 0;
  /// Begins an answer whose length is not known.
  virtual void start_stream(int status, Headers headers) = 0;
  /// A part of it. False where the client is gone or reads so slowly that it was given up.
  virtual bool write(std::string part) = 0;
  virtual void end() = 0;
  /// Called once, on a thread of the server, when the client goes away (or is given up, or the
  /// server stops) before the answer is complete; at once, by the caller's thread, where it has
  /// gone already. A second one takes the place of the first.
  virtual void on_gone(std::function<void()> gone) = 0;
  /// What the answer took; before its end, and sent to nobody.
  virtual void report(const AnswerFigures&) {}
};

using Handler = std::function<void(HttpRequest, std::shared_ptr<Responder>)>;

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;      ///< 0: a free one
  std::string api_key_file;  ///< empty: no keys are asked for
  std::string tls_cert;
  std::string tls_key;
  std::vector<std::string> cors_origins;
  uint64_t max_body = uint64_t{16} << 20;   ///< bytes; 413 above
  uint32_t max_header = 64 * 1024;          ///< bytes of all headers; 431 above
  uint32_t max_connections = 1024;          ///< 503 above
  uint64_t max_unsent = uint64_t{4} << 20;  ///< bytes kept for a client that reads slowly
  std::chrono::seconds header_timeout{10};  ///< for the head of a request
  std::chrono::seconds body_timeout{60};    ///< for its body
  std::chrono::seconds idle_timeout{75};    ///< between requests
  std::chrono::seconds write_timeout{30};   ///< without progress of a reader
  /// Told of each request that the server itself answers with an error, before any handler, on a
  /// thread of the server.
  std::function<void(int status)> on_refusal;
  int threads = 1;
};

class HttpServer {
 public:
  /// Binds and begins to serve. Usage error: a host other than loopback without keys, a file that
  /// cannot be read, a certificate without its key; kFailed: the port is taken.
  static Result<std::unique_ptr<HttpServer>> start(HttpOptions options, Handler handler);
  virtual ~HttpServer() = default;
  virtual uint16_t port() const = 0;
  /// Reads the key file again; on an error the keys stay as they were.
  virtual Result<void> reload_keys() = 0;
  /// Accepts nothing new, gives answers under way so much time, then closes everything. Returns
  /// when all is closed.
  virtual void stop(std::chrono::seconds grace) = 0;
};

}  // namespace ondol::serve
