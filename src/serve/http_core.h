// Thread rule: a Core is shared by the server's threads, each member as it says; a Stream and a
// Connection belong to their strand.
#pragma once

#include <atomic>
#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "serve/api_keys.h"
#include "serve/http_server.h"

// Inside of the HTTP server: what http_server.cc (listening, TLS, keys, the end) and
// http_session.cc (one connection) share.

namespace ondol::serve {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
template <class T>
using Task = asio::awaitable<T>;
inline constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
using Moved = std::pair<error_code, size_t>;

/// A connection with or without TLS. Everything runs on its strand; one read and one write may be
/// under way at once.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual tcp::socket& socket() = 0;
  virtual bool is_tls() const = 0;
  virtual Task<error_code> handshake() = 0;
  virtual Task<Moved> read_some(asio::mutable_buffer to) = 0;
  virtual Task<Moved> write_some(asio::const_buffer from) = 0;
  /// Tells the peer that nothing more comes.
  virtual Task<void> finish() = 0;
};

/// One connection, of which the server knows this much.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual void start() = 0;
  virtual const asio::any_io_executor& executor() const = 0;
  /// Lets the answer under way end and closes everything else. On the strand.
  virtual void shut_down() = 0;
  /// Closes at once; whoever answers is told. On the strand.
  virtual void close_now() = 0;
};

/// What all connections share. It outlives the server where a Responder is still held somewhere.
struct Core : std::enable_shared_from_this<Core> {
  Core(HttpOptions given, Handler with)
      : options(std::move(given)),
        handler(std::move(with)),
        io(options.threads),
        acceptor(asio::make_strand(io)) {}

  HttpOptions options;
  Handler handler;
  asio::io_context io;
  std::optional<asio::ssl::context> tls;
  tcp::acceptor acceptor;

  std::atomic<bool> stopping = false;  ///< set under the mutex

  std::mutex mutex;  ///< of what follows
  std::condition_variable changed;
  std::shared_ptr<const ApiKeys> keys;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections;

  Result<void> load_keys();
  Result<void> load_tls();
  Result<void> listen();
  Task<void> accept_loop();
  void admit(tcp::socket socket);
  void forget(Connection* connection);
  std::shared_ptr<const ApiKeys> current_keys();
  std::vector<std::shared_ptr<Connection>> all_connections();
};

/// A connection that serves requests, or one that is only told that there is no room.
std::shared_ptr<Connection> make_connection(std::shared_ptr<Core> core,
                                            std::unique_ptr<Stream> stream, bool turned_away);

}  // namespace ondol::serve
