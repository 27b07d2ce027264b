#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>

#include "serve/http_server.h"
#include "serve/test_client.h"

namespace ondol::serve::test {
namespace {

template <class T, void (*release)(T*)>
struct Free {
  void operator()(T* object) const { release(object); }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY, EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509, X509_free>>;
using Context = std::unique_ptr<SSL_CTX, Free<SSL_CTX, SSL_CTX_free>>;
using Ssl = std::unique_ptr<SSL, Free<SSL, SSL_free>>;

/// Writes NAME.key and NAME.crt, a certificate signed by itself.
std::string make_certificate(const std::string& name) {
  const std::string base = testing::TempDir() + name;
  const Key key(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
  const Certificate certificate(X509_new());
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  const unsigned char host[] = "localhost";
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, host, -1, -1, 0);
  X509_set_issuer_name(certificate.get(), subject);
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  FILE* file = std::fopen((base + ".key").c_str(), "w");
  PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  file = std::fopen((base + ".crt").c_str(), "w");
  PEM_write_X509(file, certificate.get());
  std::fclose(file);
  return base;
}

/// A client that speaks TLS over a Client's socket; reads and writes wait 20 s at most.
class TlsClient {
 public:
  explicit TlsClient(uint16_t port, int version = TLS1_3_VERSION) : client_(port) {
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(client_.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(client_.fd(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    context_.reset(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_security_level(context_.get(), 0);
    SSL_CTX_ctrl(context_.get(), SSL_CTRL_SET_MIN_PROTO_VERSION, version, nullptr);
    SSL_CTX_ctrl(context_.get(), SSL_CTRL_SET_MAX_PROTO_VERSION, version, nullptr);
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), client_.fd());
    connected_ = SSL_connect(ssl_.get()) == 1;
  }
  bool connected() const { return connected_; }
  bool send(std::string_view bytes) {
    return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) ==
           static_cast<int>(bytes.size());
  }
  /// Reads until `text` has come, or the end.
  std::string read_until(std::string_view text) {
    while (text.empty() || buffer_.find(text) == std::string::npos) {
      char bytes[16384];
      const int n = SSL_read(ssl_.get(), bytes, sizeof bytes);
      if (n <= 0) {
        clean_end_ = SSL_get_error(ssl_.get(), n) == SSL_ERROR_ZERO_RETURN;
        break;
      }
      buffer_.append(bytes, static_cast<size_t>(n));
    }
    return std::exchange(buffer_, {});
  }
  bool clean_end() const { return clean_end_; }
  void close() { client_.close(); }

 private:
  Client client_;
  Context context_;
  Ssl ssl_;
  bool connected_ = false;
  bool clean_end_ = false;
  std::string buffer_;
};

class HttpTls : public testing::Test {
 protected:
  const std::string base_ = make_certificate("http_tls_" + std::to_string(::getpid()));
  TestServer served_{{.tls_cert = base_ + ".crt", .tls_key = base_ + ".key"}};
};

TEST_F(HttpTls, AnswersAndStreams) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(served_.port(), version);
    ASSERT_TRUE(client.connected());
    ASSERT_TRUE(client.send(post("hi")));
    EXPECT_TRUE(client.read_until("hi").ends_with("\r\n\r\nPOST /echo? [] hi"));
    ASSERT_TRUE(client.send(get("/stream", "Connection: close\r\n")));
    EXPECT_TRUE(client.read_until("").ends_with("\r\n0\r\n\r\n"));
    EXPECT_TRUE(client.clean_end());
  }
}

TEST_F(HttpTls, LargeBodiesBothWays) {
  TlsClient client(served_.port());
  ASSERT_TRUE(client.connected());
  const std::string body = std::string(8 << 20, 'x') + "end";
  ASSERT_TRUE(client.send(post(body)));
  const std::string answer = client.read_until("end");
  EXPECT_TRUE(answer.ends_with("] " + body));
}

TEST_F(HttpTls, OldVersionsAreRefused) {
  const TlsClient client(served_.port(), TLS1_1_VERSION);
  EXPECT_FALSE(client.connected());
  EXPECT_TRUE(TlsClient(served_.port()).connected());
}

TEST_F(HttpTls, PlainTextAndNoiseHarmNobody) {
  for (const std::string& bytes : {get("/"), std::string(5000, '\x16'), std::string("\x16")}) {
    Client plain(served_.port());
    ASSERT_TRUE(plain.send(bytes));
    plain.half_close();
    EXPECT_TRUE(plain.read_end());
  }
  Client silent(served_.port());
  TlsClient client(served_.port());
  ASSERT_TRUE(client.connected());
  ASSERT_TRUE(client.send(post("well")));
  EXPECT_TRUE(client.read_until("well").ends_with("well"));
}

TEST_F(HttpTls, AClientThatLeavesIsNoticed) {
  TlsClient client(served_.port());
  ASSERT_TRUE(client.connected());
  ASSERT_TRUE(client.send(get("/held")));
  auto responder = served_.take();
  ASSERT_TRUE(responder);
  Event gone;
  responder->on_gone([&gone] { gone.set(); });
  responder->start_stream(200, {});
  EXPECT_TRUE(responder->write("part"));
  EXPECT_NE(client.read_until("part"), "");
  EXPECT_EQ(gone.count(), 0);
  client.close();
  EXPECT_TRUE(gone.wait());
}

TEST_F(HttpTls, StopsWithOpenConnections) {
  TlsClient idle(served_.port());
  ASSERT_TRUE(idle.connected());
  Client silent(served_.port());
  TlsClient busy(served_.port());
  ASSERT_TRUE(busy.send(get("/held")));
  auto responder = served_.take();
  ASSERT_TRUE(responder);
  const auto begun = Clock::now();
  std::thread stopper([this] { served_.server->stop(10s); });
  responder->send(200, {}, "last words");
  EXPECT_TRUE(busy.read_until("words").ends_with("last words"));
  stopper.join();
  EXPECT_LT(Clock::now() - begun, 5s);
}

TEST(HttpTlsFiles, ErrorsSayWhatToDo) {
  const std::string one = make_certificate("http_tls_one");
  const std::string two = make_certificate("http_tls_two");
  const std::string empty = testing::TempDir() + "http_tls_empty";
  std::ofstream(empty).flush();
  const std::pair<std::string, std::string> wrong[] = {
      {one + ".crt", ""},
      {"", one + ".key"},
      {one + ".crt", two + ".key"},
      {"/nonexistent", one + ".key"},
      {one + ".crt", "/nonexistent"},
      {empty, one + ".key"},
      {one + ".crt", empty},
      {one + ".key", one + ".crt"},
  };
  for (const auto& [certificate, key] : wrong) {
    const auto started = HttpServer::start({.port = 0, .tls_cert = certificate, .tls_key = key},
                                           [](HttpRequest, const std::shared_ptr<Responder>&) {});
    ASSERT_FALSE(started) << certificate << " " << key;
    EXPECT_EQ(started.error().kind, ErrorKind::kUsage);
    EXPECT_FALSE(started.error().message.empty());
  }
}

}  // namespace
}  // namespace ondol::serve::test
