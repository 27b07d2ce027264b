#include "serve/http_server.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <thread>

#include "base/env.h"
#include "serve/http_core.h"
#include "serve/http_rules.h"

namespace ondol::serve {
namespace {

constexpr size_t kMaxTurnedAway = 256;  ///< connections that may wait to be told 503

/// Reading and writing, which are the same for both kinds.
template <class Layer>
class LayerStream : public Stream {
 public:
  Task<Moved> read_some(asio::mutable_buffer to) override {
    auto [ec, n] = co_await layer_.async_read_some(to, kAwait);
    co_return Moved(ec, n);
  }
  Task<Moved> write_some(asio::const_buffer from) override {
    auto [ec, n] = co_await layer_.async_write_some(from, kAwait);
    co_return Moved(ec, n);
  }

 protected:
  explicit LayerStream(Layer layer) : layer_(std::move(layer)) {}
  Layer layer_;
};

class PlainStream : public LayerStream<tcp::socket> {
 public:
  explicit PlainStream(tcp::socket socket) : LayerStream(std::move(socket)) {}
  tcp::socket& socket() override { return layer_; }
  bool is_tls() const override { return false; }
  Task<error_code> handshake() override { co_return error_code(); }
  Task<void> finish() override {
    error_code ignored;
    ignored = layer_.shutdown(tcp::socket::shutdown_send, ignored);
    co_return;
  }
};

class TlsStream : public LayerStream<asio::ssl::stream<tcp::socket>> {
 public:
  TlsStream(tcp::socket socket, asio::ssl::context& context)
      : LayerStream(asio::ssl::stream<tcp::socket>(std::move(socket), context)) {}
  tcp::socket& socket() override { return layer_.next_layer(); }
  bool is_tls() const override { return true; }
  Task<error_code> handshake() override {
    auto [ec] = co_await layer_.async_handshake(asio::ssl::stream_base::server, kAwait);
    co_return ec;
  }
  Task<void> finish() override {
    auto [ec] = co_await layer_.async_shutdown(kAwait);
    (void)ec;  // the peer may have gone first
  }
};

}  // namespace

Result<void> Core::load_keys() {
  if (options.api_key_file.empty()) return {};
  auto loaded = ApiKeys::load(Env::real(), options.api_key_file);
  if (!loaded) return usage_error(loaded.error().message);
  const std::lock_guard lock(mutex);
  keys = std::make_shared<const ApiKeys>(*std::move(loaded));
  return {};
}

Result<void> Core::load_tls() {
  if (options.tls_cert.empty() && options.tls_key.empty()) return {};
  if (options.tls_cert.empty() || options.tls_key.empty()) {
    return usage_error("TLS needs both a certificate and its key: give --tls-cert and --tls-key");
  }
  tls.emplace(asio::ssl::context::tls_server);
  error_code ec;
  using Context = asio::ssl::context;
  ec = tls->set_options(Context::default_workarounds | Context::no_sslv2 | Context::no_sslv3 |
                            Context::no_tlsv1 | Context::no_tlsv1_1 | Context::no_compression,
                        ec);
  SSL_CTX_set_options(tls->native_handle(), SSL_OP_NO_RENEGOTIATION);
  // A key with a password cannot be used; without this, OpenSSL would ask on the terminal.
  ec = tls->set_password_callback([](size_t, Context::password_purpose) { return std::string(); },
                                  ec);
  ec = tls->use_certificate_chain_file(options.tls_cert, ec);
  if (ec) {
    return usage_error(fmt::format("{}: not a certificate in PEM format that can be read ({})",
                                   options.tls_cert, ec.message()));
  }
  ec = tls->use_private_key_file(options.tls_key, Context::pem, ec);
  if (ec) {
    return usage_error(fmt::format("{}: not the key of {} in PEM format without a password ({})",
                                   options.tls_key, options.tls_cert, ec.message()));
  }
  return {};
}

namespace {

/// The address of a host name; "localhost" is 127.0.0.1.
std::optional<asio::ip::address> resolve(asio::io_context& io, std::string host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty()) return std::nullopt;
  if (lower(host) == "localhost") host = "127.0.0.1";
  error_code ec;
  auto address = asio::ip::make_address(host, ec);
  if (!ec) return address;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, "", tcp::resolver::passive, ec);
  if (ec || found.empty()) return std::nullopt;
  return found.begin()->endpoint().address();
}

bool is_loopback(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
  }
  return address.is_loopback();
}

}  // namespace

Result<void> Core::listen() {
  const auto address = resolve(io, options.host);
  if (!address) {
    return usage_error(
        fmt::format("'{}' is no address of this machine to listen on: 127.0.0.1 "
                    "serves this machine alone, 0.0.0.0 every network",
                    options.host));
  }
  if (!is_loopback(*address) && !keys) {
    return usage_error(fmt::format(
        "listening on {} lets other machines in, which needs keys: give --api-key-file FILE with a "
        "line NAME:KEY, or leave --host away to serve this machine alone",
        options.host));
  }
  error_code ec;
  const tcp::endpoint endpoint(*address, options.port);
  ec = acceptor.open(endpoint.protocol(), ec);
  if (!ec) ec = acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec && address->is_v6()) ec = acceptor.set_option(asio::ip::v6_only(false), ec);
  if (!ec) ec = acceptor.bind(endpoint, ec);
  if (!ec) ec = acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (!ec) return {};
  if (ec == asio::error::address_in_use) {
    return failed(
        fmt::format("port {} on {} is taken by another program: choose another with "
                    "--port, or 0 for a free one",
                    options.port, options.host));
  }
  if (ec == asio::error::access_denied) {
    return failed(fmt::format("port {} needs the rights of an administrator: choose one above 1023",
                              options.port));
  }
  return failed(
      fmt::format("cannot listen on {} port {}: {}", options.host, options.port, ec.message()));
}

Task<void> Core::accept_loop() {
  const auto self = shared_from_this();
  asio::steady_timer pause(acceptor.get_executor());
  while (acceptor.is_open()) {
    auto [ec, socket] = co_await acceptor.async_accept(asio::make_strand(io), kAwait);
    if (!ec) {
      admit(tcp::socket(std::move(socket)));
    } else if (ec != asio::error::operation_aborted) {
      // Out of file descriptors, mostly: what is open must be served first.
      pause.expires_after(std::chrono::milliseconds(100));
      co_await pause.async_wait(kAwait);
    }
  }
}

void Core::admit(tcp::socket socket) {
  error_code ignored;
  ignored = socket.set_option(tcp::no_delay(true), ignored);
  std::shared_ptr<Connection> connection;
  {
    const std::lock_guard lock(mutex);
    const size_t full = options.max_connections;
    if (stopping || connections.size() >= full + kMaxTurnedAway) return;
    std::unique_ptr<Stream> stream;
    if (tls) {
      stream = std::make_unique<TlsStream>(std::move(socket), *tls);
    } else {
      stream = std::make_unique<PlainStream>(std::move(socket));
    }
    connection = make_connection(shared_from_this(), std::move(stream), connections.size() >= full);
    connections.emplace(connection.get(), connection);
  }
  connection->start();
}

void Core::forget(Connection* connection) {
  std::shared_ptr<Connection> last;  // destroyed outside the lock
  const std::lock_guard lock(mutex);
  const auto found = connections.find(connection);
  if (found == connections.end()) return;
  last = std::move(found->second);
  connections.erase(found);
  changed.notify_all();
}

std::shared_ptr<const ApiKeys> Core::current_keys() {
  const std::lock_guard lock(mutex);
  return keys;
}

std::vector<std::shared_ptr<Connection>> Core::all_connections() {
  const std::lock_guard lock(mutex);
  std::vector<std::shared_ptr<Connection>> out;
  for (const auto& [key, connection] : connections) out.push_back(connection);
  return out;
}

namespace {

class Server : public HttpServer {
 public:
  explicit Server(std::shared_ptr<Core> core)
      : core_(std::move(core)), port_(core_->acceptor.local_endpoint().port()) {
    asio::co_spawn(core_->acceptor.get_executor(), core_->accept_loop(), asio::detached);
    for (int i = 0; i < core_->options.threads; ++i) threads_.emplace_back([this] { run(); });
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() override { Server::stop(std::chrono::seconds(0)); }

  uint16_t port() const override { return port_; }
  Result<void> reload_keys() override { return core_->load_keys(); }

  void stop(std::chrono::seconds grace) override {
    if (threads_.empty()) return;
    const auto until = Clock::now() + grace;
    {
      const std::lock_guard lock(core_->mutex);
      core_->stopping = true;
    }
    asio::post(core_->acceptor.get_executor(), [core = core_] {
      error_code ignored;
      ignored = core->acceptor.close(ignored);
    });
    for (const auto& connection : core_->all_connections()) {
      asio::post(connection->executor(), [connection] { connection->shut_down(); });
    }
    {
      std::unique_lock lock(core_->mutex);
      core_->changed.wait_until(lock, until, [this] { return core_->connections.empty(); });
    }
    for (const auto& connection : core_->all_connections()) {
      asio::post(connection->executor(), [connection] { connection->close_now(); });
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    core_->handler = nullptr;  // what it holds may be destroyed now
  }

 private:
  /// Returns when the acceptor and all connections have ended.
  void run() {
    for (;;) {
      try {
        core_->io.run();
        return;
      } catch (const std::exception& e) {
        spdlog::error("the server goes on after: {}", e.what());
      }
    }
  }

  const std::shared_ptr<Core> core_;
  const uint16_t port_;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpOptions options, Handler handler) {
  options.threads = std::max(options.threads, 1);
  for (const std::string& origin : options.cors_origins) {
    if (!is_origin(origin)) {
      return usage_error(
          fmt::format("'{}' is no origin: write it as a browser sends it, https://app.example or "
                      "http://localhost:3000, without a path",
                      origin));
    }
  }
  auto core = std::make_shared<Core>(std::move(options), std::move(handler));
  if (auto done = core->load_keys(); !done) return propagate(done);
  if (auto done = core->load_tls(); !done) return propagate(done);
  if (auto done = core->listen(); !done) return propagate(done);
  return std::make_unique<Server>(std::move(core));
}

}  // namespace ondol::serve
