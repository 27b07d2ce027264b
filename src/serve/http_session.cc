#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>

#include "serve/http_core.h"
#include "serve/http_rules.h"

// One connection is one Session: three small coroutines on one strand (read, write, watch the
// clock) around one state, its phase. The reader never stops reading while an answer is pending,
// which is how it sees the client go; what comes early stays in a buffer of limited size. Answers
// come from any thread: they append to the outbox under a mutex and wake the writer.

namespace ondol::serve {
namespace {

namespace http = boost::beast::http;

constexpr size_t kReadSize = 16 * 1024;
constexpr size_t kMaxAhead = 64 * 1024;  ///< bytes kept of requests that wait for their turn
constexpr size_t kMaxChunkHead = 16 * 1024;
constexpr size_t kKeepCapacity = 256 * 1024;  ///< a buffer that grew beyond is given back
constexpr auto kLook = std::chrono::milliseconds(200);
constexpr auto kLinger = std::chrono::seconds(5);  ///< for a client that still sends a body
constexpr auto kShortLinger = std::chrono::seconds(1);
constexpr auto kNever = Clock::time_point::max();

class Session : public Connection, public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<Core> core, std::unique_ptr<Stream> stream, bool turned_away)
      : core_(std::move(core)),
        stream_(std::move(stream)),
        executor_(stream_->socket().get_executor()),
        turned_away_(turned_away),
        clock_(executor_),
        wake_(executor_),
        resume_(executor_) {}

  void start() override;
  const asio::any_io_executor& executor() const override { return executor_; }
  void shut_down() override;
  void close_now() override { close(); }

  // For the Responder of request `serial`, from any thread. After its answer, or once the client
  // has gone, they do nothing.
  void answer(uint64_t serial, int status, const Headers& headers, std::string_view body);
  void begin_stream(uint64_t serial, int status, const Headers& headers);
  bool append(uint64_t serial, std::string_view part);
  void end_stream(uint64_t serial);
  void drop(uint64_t serial);
  void watch(uint64_t serial, std::function<void()> gone);

 private:
  enum class Phase { kHandshake, kIdle, kHead, kBody, kAnswering, kDraining, kClosed };
  enum class Answer { kNone, kWaiting, kStreaming, kDone };

  void spawn(Task<void> loop);
  Task<void> read_loop();
  Task<void> write_loop();
  Task<void> watch_loop();
  Task<bool> open();
  Task<bool> flush();
  Task<void> close_gently();
  void on_deadline();
  void on_read_end();
  bool client_hung_up();

  void advance();
  bool step();
  bool on_head();
  void refuse_parse_error(const error_code& ec);
  void refuse(const Refusal& refusal, bool close);
  void answer_itself(int status, const Headers& headers, std::string_view body, bool close);
  void dispatch();
  uint64_t begin_exchange(bool keep_alive);
  bool finish_exchange();
  void close();
  void set_deadline(Clock::time_point until);

  bool is_current(uint64_t serial, Answer state) const {
    return !closed_ && !given_up_ && serial == serial_ && answer_ == state;
  }
  Framing framing(int status, std::optional<uint64_t> length);
  void put(std::string_view bytes);
  bool take_outbox();
  bool answered();

  const std::shared_ptr<Core> core_;  // first: its io_context outlives the rest
  const std::unique_ptr<Stream> stream_;
  const asio::any_io_executor executor_;
  const bool turned_away_;

  // On the strand only.
  Phase phase_ = Phase::kHandshake;
  int loops_ = 3;
  bool discard_ = false;      ///< what is read is thrown away
  bool read_closed_ = false;  ///< the client sends nothing more
  std::array<char, kReadSize> chunk_{};
  boost::beast::flat_buffer inbuf_;
  std::optional<http::request_parser<http::string_body>> parser_;
  RequestHead head_;
  HttpRequest request_;
  std::string writing_;
  Clock::time_point read_deadline_ = kNever;
  Clock::time_point write_deadline_ = kNever;
  asio::steady_timer clock_;
  asio::steady_timer wake_;
  asio::steady_timer resume_;

  std::mutex mutex_;  ///< of what follows
  std::string outbox_;
  uint64_t unsent_ = 0;  ///< bytes in the outbox and in writing_
  bool closed_ = false;
  bool given_up_ = false;  ///< the client reads too slowly; close() is on its way
  bool wake_posted_ = false;
  uint64_t serial_ = 0;
  Answer answer_ = Answer::kNone;
  bool keep_alive_ = true;
  bool head_only_ = false;
  bool chunked_ = true;
  std::function<void()> gone_;
};

class Exchange : public Responder {
 public:
  Exchange(std::shared_ptr<Session> session, uint64_t serial)
      : session_(std::move(session)), serial_(serial) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange() override { session_->drop(serial_); }

  void send(int status, Headers headers, std::string body) override {
    session_->answer(serial_, status, headers, body);
  }
  void start_stream(int status, Headers headers) override {
    session_->begin_stream(serial_, status, headers);
  }
  bool write(std::string part) override { return session_->append(serial_, part); }
  void end() override { session_->end_stream(serial_); }
  void on_gone(std::function<void()> gone) override { session_->watch(serial_, std::move(gone)); }

 private:
  const std::shared_ptr<Session> session_;
  const uint64_t serial_;
};

void call_safely(const std::function<void()>& callback) {
  try {
    callback();
  } catch (const std::exception& e) {
    spdlog::error("a callback of the server failed: {}", e.what());
  }
}

// --- reading ---

void Session::spawn(Task<void> loop) {
  asio::co_spawn(executor_, std::move(loop),
                 [self = shared_from_this()](const std::exception_ptr& problem) {
                   if (problem) self->close();
                   if (--self->loops_ == 0) self->core_->forget(self.get());
                 });
}

void Session::start() {
  spawn(read_loop());
  spawn(write_loop());
  spawn(watch_loop());
}

/// The TLS handshake, and the 503 where there is no room.
Task<bool> Session::open() {
  const auto patience = core_->options.header_timeout;
  set_deadline(Clock::now() + patience);
  const error_code ec = co_await stream_->handshake();
  if (ec || phase_ == Phase::kClosed) {
    close();
    co_return false;
  }
  phase_ = Phase::kIdle;
  set_deadline(Clock::now() + patience);
  if (turned_away_) {
    refuse({503,
            "The server has as many connections as it may hold: try again in a moment.",
            "too_many_connections",
            {{"Retry-After", "1"}}},
           true);
  }
  co_return true;
}

Task<void> Session::read_loop() {
  const bool opened = co_await open();
  if (!opened) co_return;
  while (phase_ != Phase::kClosed) {
    if (phase_ == Phase::kAnswering && !discard_ && inbuf_.size() >= kMaxAhead) {
      // Enough read ahead. The end of the connection must be seen all the same.
      resume_.expires_after(kLook);
      auto [stopped] = co_await resume_.async_wait(kAwait);
      if (!stopped && client_hung_up()) {
        on_read_end();
        co_return;
      }
      continue;
    }
    const Moved got = co_await stream_->read_some(asio::buffer(chunk_));
    if (phase_ == Phase::kClosed) co_return;
    if (got.first) {
      on_read_end();
      co_return;
    }
    if (discard_) continue;
    const auto room = inbuf_.prepare(got.second);
    inbuf_.commit(asio::buffer_copy(room, asio::buffer(chunk_, got.second)));
    advance();
  }
}

bool Session::client_hung_up() {
  pollfd look{.fd = stream_->socket().native_handle(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&look, 1, 0) > 0 && (look.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/// The client closed its side. A half-closed connection cannot be told from a closed one, so that
/// whoever still waits for an answer counts as gone.
void Session::on_read_end() {
  read_closed_ = true;
  if (phase_ == Phase::kHead || phase_ == Phase::kBody) {
    refuse({400, "The request ended early.", "bad_request", {}}, true);
    return;
  }
  if (phase_ == Phase::kAnswering) {
    // What has been answered is sent to the end; the writer sees whether anybody is there.
    const std::lock_guard lock(mutex_);
    if (answer_ == Answer::kDone) return;
  }
  close();
}

/// Goes on with what has been read.
void Session::advance() {
  while (inbuf_.size() > 0 && step()) {
  }
  if (inbuf_.size() == 0 && inbuf_.capacity() > kKeepCapacity) inbuf_.shrink_to_fit();
}

/// One step of the parser; false where it needs more, or has to wait.
bool Session::step() {
  if (phase_ == Phase::kIdle) {
    // An empty line before a request is skipped (RFC 9112, section 2.2).
    const auto* first = static_cast<const char*>(inbuf_.data().data());
    if (*first == '\r' || *first == '\n') {
      inbuf_.consume(1);
      return true;
    }
    parser_.emplace();
    parser_->header_limit(core_->options.max_header);
    parser_->body_limit(core_->options.max_body);
    phase_ = Phase::kHead;
    set_deadline(Clock::now() + core_->options.header_timeout);
  }
  if (phase_ != Phase::kHead && phase_ != Phase::kBody) return false;
  error_code ec;
  const size_t used = parser_->put(inbuf_.data(), ec);
  inbuf_.consume(used);
  if (ec && ec != http::error::need_more) {
    refuse_parse_error(ec);
    return false;
  }
  if (phase_ == Phase::kHead) {
    return parser_->is_header_done() ? on_head() : used > 0;
  }
  if (parser_->is_done()) {
    dispatch();
    return false;
  }
  if (ec && inbuf_.size() > kMaxChunkHead) {
    refuse({400, "A chunk of the body has too long a head.", "bad_request", {}}, true);
    return false;
  }
  return used > 0;
}

void Session::refuse_parse_error(const error_code& ec) {
  if (ec == http::error::header_limit) {
    refuse({431,
            fmt::format("The headers are longer than {} bytes.", core_->options.max_header),
            "headers_too_large",
            {}},
           true);
  } else if (ec == http::error::body_limit) {
    refuse({413,
            fmt::format("The body is longer than {} bytes, the limit of this server.",
                        core_->options.max_body),
            "request_too_large",
            {}},
           true);
  } else if (ec == http::error::bad_version) {
    refuse({505, "Only HTTP/1.1 and HTTP/1.0 are served.", "bad_version", {}}, true);
  } else {
    refuse({400, fmt::format("The request is malformed: {}.", ec.message()), "bad_request", {}},
           true);
  }
}

/// Everything that can be decided before the body is read. True where the body comes next.
bool Session::on_head() {
  const auto& message = parser_->get();
  head_ = {};
  head_.method = std::string(message.method_string());
  head_.target = std::string(message.target());
  head_.version = static_cast<int>(message.version());
  for (const auto& field : message) {
    head_.headers.emplace_back(lower({field.name_string().data(), field.name_string().size()}),
                               std::string(field.value()));
  }
  const bool body_comes = !parser_->is_done();
  if (const auto wrong = check_head(head_)) return refuse(*wrong, true), false;
  auto target = parse_target(head_.target);
  if (!target) {
    return refuse({400, "The address asked for is malformed.", "bad_request", {}}, true), false;
  }
  request_ = {};
  if (const auto wrong = check_policy(core_->options, core_->current_keys().get(), head_, *target,
                                      request_.client)) {
    return refuse(*wrong, body_comes), false;
  }
  if (head_.method == "OPTIONS") {
    answer_itself(204, options_headers(core_->options.cors_origins, head_), "", body_comes);
    return false;
  }
  request_.method = head_.method == "HEAD" ? "GET" : head_.method;
  request_.path = std::move(target->path);
  request_.query = std::move(target->query);
  request_.headers = head_.headers;
  std::erase_if(request_.headers, [](const auto& h) { return h.first == "authorization"; });
  if (!body_comes) return dispatch(), false;
  phase_ = Phase::kBody;
  parser_->eager(true);
  set_deadline(Clock::now() + core_->options.body_timeout);
  if (head_.version >= 11 && inbuf_.size() == 0 && !find_header(head_.headers, "expect").empty()) {
    const std::lock_guard lock(mutex_);
    if (!closed_) put("HTTP/1.1 100 Continue\r\n\r\n");
  }
  return true;
}

// --- one request and its answer ---

uint64_t Session::begin_exchange(bool keep_alive) {
  phase_ = Phase::kAnswering;
  set_deadline(kNever);
  const std::lock_guard lock(mutex_);
  ++serial_;
  answer_ = Answer::kWaiting;
  keep_alive_ = keep_alive && keep_alive_;
  head_only_ = head_.method == "HEAD";
  chunked_ = head_.version >= 11;
  return serial_;
}

void Session::refuse(const Refusal& refusal, bool close) {
  if (core_->options.on_refusal) core_->options.on_refusal(refusal.status);
  Headers headers = refusal.headers;
  headers.emplace_back("Content-Type", "application/json");
  answer_itself(refusal.status, headers, error_body(refusal.status, refusal.message, refusal.code),
                close);
}

void Session::answer_itself(int status, const Headers& headers, std::string_view body, bool close) {
  if (phase_ == Phase::kClosed) return;
  const bool lasts = !close && parser_ && parser_->keep_alive();
  discard_ = close;
  // A head that was not understood is none.
  if (phase_ == Phase::kHead && !parser_->is_header_done()) head_ = {};
  const uint64_t serial = begin_exchange(lasts);
  parser_.reset();
  answer(serial, status, headers, body);
}

void Session::dispatch() {
  request_.body = std::move(parser_->get().body());
  const bool lasts = parser_->keep_alive();
  parser_.reset();
  const uint64_t serial = begin_exchange(lasts);
  auto responder = std::make_shared<Exchange>(shared_from_this(), serial);
  try {
    core_->handler(std::move(request_), std::move(responder));
  } catch (const std::exception& e) {
    // The Responder is destroyed by now and has answered 500.
    spdlog::error("a request failed: {}", e.what());
  }
  request_ = {};
}

/// The answer is written. False where the connection ends with it.
bool Session::finish_exchange() {
  {
    const std::lock_guard lock(mutex_);
    answer_ = Answer::kNone;
    if (!keep_alive_ || read_closed_) return false;
  }
  phase_ = Phase::kIdle;
  set_deadline(Clock::now() + core_->options.idle_timeout);
  resume_.cancel();
  advance();
  return true;
}

Framing Session::framing(int status, std::optional<uint64_t> length) {
  using Body = Framing::Body;
  keep_alive_ = keep_alive_ && !core_->stopping;
  if (status == 204 || status == 304 || status < 200) return {Body::kNone, 0, keep_alive_};
  if (length) return {Body::kLength, *length, keep_alive_};
  if (chunked_) return {Body::kChunked, 0, keep_alive_};
  keep_alive_ = false;
  return {Body::kUntilClose, 0, false};
}

void Session::answer(uint64_t serial, int status, const Headers& headers, std::string_view body) {
  std::function<void()> released;  // destroyed outside the lock
  const std::lock_guard lock(mutex_);
  if (!is_current(serial, Answer::kWaiting)) return;
  Headers all = headers;
  std::ranges::move(cors_headers(core_->options.cors_origins, find_header(head_.headers, "origin")),
                    std::back_inserter(all));
  const Framing frame = framing(status, body.size());
  std::string bytes = response_head(status, all, frame);
  if (frame.body == Framing::Body::kLength && !head_only_) bytes.append(body);
  answer_ = Answer::kDone;
  released.swap(gone_);
  put(bytes);
}

void Session::begin_stream(uint64_t serial, int status, const Headers& headers) {
  const std::lock_guard lock(mutex_);
  if (!is_current(serial, Answer::kWaiting)) return;
  Headers all = headers;
  std::ranges::move(cors_headers(core_->options.cors_origins, find_header(head_.headers, "origin")),
                    std::back_inserter(all));
  const Framing frame = framing(status, std::nullopt);
  if (frame.body == Framing::Body::kNone) head_only_ = true;
  answer_ = Answer::kStreaming;
  put(response_head(status, all, frame));
}

bool Session::append(uint64_t serial, std::string_view part) {
  const std::lock_guard lock(mutex_);
  if (!is_current(serial, Answer::kStreaming)) return false;
  if (part.empty() || head_only_) return true;
  if (unsent_ > core_->options.max_unsent) {
    given_up_ = true;
    asio::post(executor_, [self = shared_from_this()] { self->close(); });
    return false;
  }
  if (chunked_) {
    put(fmt::format("{:x}\r\n{}\r\n", part.size(), part));
  } else {
    put(part);
  }
  return true;
}

void Session::end_stream(uint64_t serial) {
  std::function<void()> released;
  const std::lock_guard lock(mutex_);
  if (!is_current(serial, Answer::kStreaming)) return;
  answer_ = Answer::kDone;
  released.swap(gone_);
  put(chunked_ && !head_only_ ? "0\r\n\r\n" : "");
}

void Session::drop(uint64_t serial) {
  answer(serial, 500, {{"Content-Type", "application/json"}},
         error_body(500, "The server lost this request without an answer.", "internal_error"));
  const std::lock_guard lock(mutex_);
  // A stream without its end must not look complete.
  if (is_current(serial, Answer::kStreaming)) {
    asio::post(executor_, [self = shared_from_this()] { self->close(); });
  }
}

void Session::watch(uint64_t serial, std::function<void()> gone) {
  {
    const std::lock_guard lock(mutex_);
    const bool pending = answer_ == Answer::kWaiting || answer_ == Answer::kStreaming;
    if (serial != serial_ || !pending) return;
    if (!closed_) {
      gone_ = std::move(gone);
      return;
    }
  }
  call_safely(gone);
}

// --- writing ---

/// Appends to what is to be sent, and wakes the writer; mutex_ is held.
void Session::put(std::string_view bytes) {
  outbox_.append(bytes);
  unsent_ += bytes.size();
  if (wake_posted_) return;
  wake_posted_ = true;
  asio::post(executor_, [self = shared_from_this()] {
    {
      const std::lock_guard lock(self->mutex_);
      self->wake_posted_ = false;
    }
    self->wake_.cancel();
  });
}

bool Session::take_outbox() {
  const std::lock_guard lock(mutex_);
  writing_.clear();
  if (writing_.capacity() > kKeepCapacity) std::string().swap(writing_);
  writing_.swap(outbox_);
  return !writing_.empty();
}

bool Session::answered() {
  const std::lock_guard lock(mutex_);
  return phase_ == Phase::kAnswering && answer_ == Answer::kDone && outbox_.empty();
}

Task<void> Session::write_loop() {
  while (phase_ != Phase::kClosed) {
    if (take_outbox()) {
      const bool written = co_await flush();
      if (!written) co_return;
      continue;
    }
    if (!answered()) {
      wake_.expires_at(kNever);
      co_await wake_.async_wait(kAwait);
    } else if (!finish_exchange()) {
      co_await close_gently();
      co_return;
    }
  }
}

Task<bool> Session::flush() {
  size_t done = 0;
  while (done < writing_.size()) {
    write_deadline_ = Clock::now() + core_->options.write_timeout;
    if (write_deadline_ < clock_.expiry()) clock_.cancel();
    const Moved moved =
        co_await stream_->write_some(asio::buffer(writing_.data() + done, writing_.size() - done));
    if (moved.first) close();
    if (phase_ == Phase::kClosed) co_return false;
    done += moved.second;
    const std::lock_guard lock(mutex_);
    unsent_ -= moved.second;
  }
  write_deadline_ = kNever;
  co_return true;
}

/// Ends the connection so that the client can read its last answer: closing a socket with unread
/// bytes would take back what is still on its way.
Task<void> Session::close_gently() {
  const bool more = discard_ || inbuf_.size() > 0;
  if (read_closed_ || (!more && !stream_->is_tls())) {
    close();
    co_return;
  }
  phase_ = Phase::kDraining;
  set_deadline(Clock::now() + (discard_ && !turned_away_ ? kLinger : kShortLinger));
  discard_ = true;
  resume_.cancel();
  co_await stream_->finish();
}

// --- time and the end ---

void Session::set_deadline(Clock::time_point until) {
  read_deadline_ = until;
  if (until < clock_.expiry()) clock_.cancel();
}

Task<void> Session::watch_loop() {
  while (phase_ != Phase::kClosed) {
    const auto until = std::min(read_deadline_, write_deadline_);
    if (Clock::now() >= until) {
      on_deadline();
      continue;
    }
    clock_.expires_at(until);
    co_await clock_.async_wait(kAwait);
  }
}

void Session::on_deadline() {
  const bool late = phase_ == Phase::kHead || phase_ == Phase::kBody;
  if (!late || Clock::now() >= write_deadline_) return close();
  refuse({408,
          phase_ == Phase::kHead ? "The headers did not arrive in time."
                                 : "The body did not arrive in time.",
          "request_timeout",
          {}},
         true);
}

void Session::shut_down() {
  {
    const std::lock_guard lock(mutex_);
    keep_alive_ = false;
  }
  if (phase_ == Phase::kDraining) {
    set_deadline(Clock::now() + kLook);
  } else if (phase_ != Phase::kAnswering) {
    close();
  }
}

void Session::close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  std::function<void()> gone;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    std::string().swap(outbox_);
    gone.swap(gone_);
  }
  error_code ignored;
  ignored = stream_->socket().close(ignored);
  clock_.cancel();
  wake_.cancel();
  resume_.cancel();
  if (gone) call_safely(gone);
}

}  // namespace

std::shared_ptr<Connection> make_connection(std::shared_ptr<Core> core,
                                            std::unique_ptr<Stream> stream, bool turned_away) {
  return std::make_shared<Session>(std::move(core), std::move(stream), turned_away);
}

}  // namespace ondol::serve
