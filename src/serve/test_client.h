// Thread rule: test code; a Client belongs to one thread at a time.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/http_rules.h"
#include "serve/http_server.h"

// A client that sends what it is told, byte for byte, and never waits for ever; and a server with a
// handler for tests.

namespace ondol::serve::test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
inline constexpr auto kPatience = std::chrono::seconds(20);

struct Response {
  int status = 0;  ///< 0: none came
  std::string head;
  Headers headers;  ///< names in lower case
  std::string body;
  bool complete = false;  ///< its end was seen
  std::string_view header(std::string_view name) const { return find_header(headers, name); }
};

class Client {
 public:
  explicit Client(uint16_t port, int receive_buffer = 0) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer > 0) {
      ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr generic{};
    static_assert(sizeof generic == sizeof address);
    std::copy_n(reinterpret_cast<const char*>(&address), sizeof address,
                reinterpret_cast<char*>(&generic));
    connected_ = ::connect(fd_, &generic, sizeof generic) == 0;
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { close(); }

  bool connected() const { return connected_; }
  int fd() const { return fd_; }

  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  /// Closes with a reset instead of a clean end.
  void reset() {
    const linger hard{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close();
  }
  void half_close() { ::shutdown(fd_, SHUT_WR); }

  /// False where not all could be sent in time.
  bool send(std::string_view bytes, std::chrono::milliseconds patience = kPatience) {
    const auto until = Clock::now() + patience;
    while (!bytes.empty()) {
      if (!ready(POLLOUT, until)) return false;
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  /// Whether the server closes within that time; what comes before is kept.
  bool read_end(std::chrono::milliseconds patience = kPatience) {
    const auto until = Clock::now() + patience;
    while (fill(until)) {
    }
    return ended_;
  }

  /// Reads until `text` has come.
  bool read_until(std::string_view text, std::chrono::milliseconds patience = kPatience) {
    const auto until = Clock::now() + patience;
    while (buffer_.find(text) == std::string::npos) {
      if (!fill(until)) return false;
    }
    return true;
  }

  Response read_response(bool no_body = false, std::chrono::milliseconds patience = kPatience) {
    const auto until = Clock::now() + patience;
    Response out;
    size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!fill(until)) return out;
    }
    out.head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    parse_head(out);
    if (no_body || out.status == 204 || out.status / 100 == 1) {
      out.complete = true;
    } else if (out.header("transfer-encoding") == "chunked") {
      read_chunks(out, until);
    } else if (!out.header("content-length").empty()) {
      const size_t length = std::stoul(std::string(out.header("content-length")));
      out.complete = take(length, out.body, until);
    } else {
      while (fill(until)) {
      }
      out.complete = ended_;
      out.body.swap(buffer_);
    }
    return out;
  }

  const std::string& unread() const { return buffer_; }

 private:
  bool ready(short events, Clock::time_point until) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd look{.fd = fd_, .events = events, .revents = 0};
    return left > 0 && ::poll(&look, 1, static_cast<int>(left)) > 0;
  }
  bool fill(Clock::time_point until) {
    if (ended_ || !ready(POLLIN, until)) return false;
    char bytes[65536];
    const ssize_t n = ::recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n <= 0) ended_ = true;
    if (n > 0) buffer_.append(bytes, static_cast<size_t>(n));
    return n > 0;
  }
  bool take(size_t length, std::string& out, Clock::time_point until) {
    while (buffer_.size() < length) {
      if (!fill(until)) return false;
    }
    out.append(buffer_, 0, length);
    buffer_.erase(0, length);
    return true;
  }
  void read_chunks(Response& out, Clock::time_point until) {
    for (;;) {
      size_t end = 0;
      while ((end = buffer_.find("\r\n")) == std::string::npos) {
        if (!fill(until)) return;
      }
      const size_t length = std::stoul(buffer_.substr(0, end), nullptr, 16);
      buffer_.erase(0, end + 2);
      if (!take(length, out.body, until)) return;
      std::string line_end;
      if (!take(2, line_end, until)) return;
      if (length == 0) {
        out.complete = true;
        return;
      }
    }
  }
  static void parse_head(Response& out) {
    out.status = std::stoi(out.head.substr(9, 3));
    size_t at = out.head.find("\r\n") + 2;
    while (at < out.head.size()) {
      const size_t end = out.head.find("\r\n", at);
      const size_t colon = out.head.find(": ", at);
      out.headers.emplace_back(lower(out.head.substr(at, colon - at)),
                               out.head.substr(colon + 2, end - colon - 2));
      at = end + 2;
    }
  }

  int fd_ = -1;
  bool connected_ = false;
  bool ended_ = false;
  std::string buffer_;
};

/// "POST /echo" with a body.
inline std::string post(std::string_view body, std::string_view more = "",
                        std::string_view path = "/echo") {
  return "POST " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(more) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}
inline std::string get(std::string_view path, std::string_view more = "") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(more) +
         "\r\n";
}

/// Something that another thread waits for.
class Event {
 public:
  void set() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  bool wait(std::chrono::milliseconds patience = kPatience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [this] { return count_ > 0; });
  }
  int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

/// Answers with what it got. /held: the Responder is kept for the test to take.
class TestServer {
 public:
  explicit TestServer(HttpOptions options = {}) {
    options.port = 0;
    auto started = HttpServer::start(options, [this](HttpRequest request, auto responder) {
      handle(std::move(request), std::move(responder));
    });
    EXPECT_TRUE(started) << started.error().message;
    if (started) server = *std::move(started);
  }
  ~TestServer() {
    server.reset();
    held_.clear();
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  /// Sends GET /held, the answer to which is the test's.
  std::shared_ptr<Responder> hold(Client& client) {
    EXPECT_TRUE(client.send(get("/held")));
    auto responder = take();
    EXPECT_TRUE(responder);
    return responder;
  }
  uint16_t port() const { return server ? server->port() : uint16_t{0}; }

  /// The Responder of the next request for /held.
  std::shared_ptr<Responder> take() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [this] { return !held_.empty(); })) return nullptr;
    auto out = std::move(held_.front());
    held_.erase(held_.begin());
    return out;
  }

  /// Whether an ordinary request is answered, on a connection of its own.
  bool is_well() const {
    Client client(port());
    client.send(post("well?"));
    const Response response = client.read_response();
    return response.status == 200 && response.body.ends_with("well?");
  }

  std::unique_ptr<HttpServer> server;

 private:
  void handle(HttpRequest request, std::shared_ptr<Responder> responder) {
    if (request.path == "/held") {
      const std::lock_guard lock(mutex_);
      held_.push_back(std::move(responder));
      changed_.notify_all();
    } else if (request.path == "/throw") {
      throw std::runtime_error("thrown by a test");
    } else if (request.path == "/stream") {
      responder->start_stream(200, {{"Content-Type", "text/event-stream"}});
      for (const char* part : {"one ", "", "two ", "three"}) responder->write(part);
      responder->end();
    } else if (request.path != "/lost") {
      responder->send(200, {{"Content-Type", "text/plain"}},
                      request.method + " " + request.path + "?" + request.query + " [" +
                          request.client + "] " + request.body);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Responder>> held_;
};

}  // namespace ondol::serve::test
