#include <gtest/gtest.h>

#include <atomic>
#include <boost/json.hpp>
#include <fstream>

#include "serve/http_server.h"
#include "serve/test_client.h"
#include "support/support.h"

// Time, slow and vanished clients, limits, keys, the end of a server.

namespace ondol::serve::test {
namespace {

TEST(HttpGone, AClientThatLeavesIsNoticedWhileItsAnswerIsPending) {
  TestServer served;
  for (const char* how : {"close", "reset", "half"}) {
    Client client(served.port());
    auto responder = served.hold(client);
    ASSERT_TRUE(responder);
    Event gone;
    responder->on_gone([&gone] { gone.set(); });
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(gone.count(), 0);
    const auto left = Clock::now();
    if (how[0] == 'c') client.close();
    if (how[0] == 'r') client.reset();
    if (how[0] == 'h') client.half_close();
    EXPECT_TRUE(gone.wait()) << how;
    EXPECT_LT(Clock::now() - left, 2s) << how;
    responder->send(200, {}, "too late");
    responder.reset();
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(gone.count(), 1) << how;
  }
  EXPECT_TRUE(served.is_well());
}

TEST(HttpGone, InTheMiddleOfAStream) {
  TestServer served;
  Client client(served.port());
  auto responder = served.hold(client);
  ASSERT_TRUE(responder);
  Event gone;
  responder->on_gone([&gone] { gone.set(); });
  responder->start_stream(200, {});
  EXPECT_TRUE(responder->write("x"));
  ASSERT_TRUE(client.read_until("x\r\n"));
  client.close();
  EXPECT_TRUE(gone.wait());
  EXPECT_FALSE(responder->write("y"));
  Event late;
  responder->on_gone([&late] { late.set(); });
  EXPECT_EQ(late.count(), 1) << "at once where it has gone already";
  EXPECT_EQ(gone.count(), 1);
}

TEST(HttpGone, EvenWithMoreRequestsOnTheWay) {
  TestServer served;
  Client client(served.port());
  auto responder = served.hold(client);
  ASSERT_TRUE(responder);
  Event gone;
  responder->on_gone([&gone] { gone.set(); });
  ASSERT_TRUE(client.send(post(std::string(150 * 1024, 'x'))));
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(gone.count(), 0);
  client.close();
  EXPECT_TRUE(gone.wait());
}

TEST(HttpGone, NotAfterACompleteAnswer) {
  TestServer served;
  Event gone;
  for (const bool stream : {false, true}) {
    Client client(served.port());
    auto responder = served.hold(client);
    ASSERT_TRUE(responder);
    responder->on_gone([&gone] { gone.set(); });
    if (stream) {
      responder->start_stream(200, {});
      responder->end();
    } else {
      responder->send(200, {}, "x");
    }
    EXPECT_TRUE(client.read_response().complete);
    client.close();
  }
  EXPECT_TRUE(served.is_well());
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(gone.count(), 0);
}

TEST(HttpGone, AClientThatClosedItsSideStillReadsWhatWasAnswered) {
  TestServer served;
  for (int i = 0; i < 50; ++i) {
    Client client(served.port());
    ASSERT_TRUE(client.send(i % 2 == 0 ? get("/stream") : post("x", "Host: twice\r\n")));
    client.half_close();
    EXPECT_EQ(client.read_response().status, i % 2 == 0 ? 200 : 400);
    EXPECT_TRUE(client.read_end());
  }
}

TEST(HttpGone, AnAnswerFromAnotherThreadAfterwards) {
  TestServer served;
  for (int i = 0; i < 50; ++i) {
    Client client(served.port());
    auto responder = served.hold(client);
    ASSERT_TRUE(responder);
    std::thread answerer([held = std::move(responder), i] {
      std::this_thread::sleep_for(std::chrono::microseconds(50 * i));
      if (i % 2 == 0) {
        held->send(200, {}, std::string(1000, 'x'));
        return;
      }
      held->start_stream(200, {});
      while (held->write("part")) std::this_thread::yield();
    });
    client.close();
    answerer.join();
  }
  EXPECT_TRUE(served.is_well());
}

TEST(HttpSlow, AReaderThatStopsIsGivenUpWithMemoryBounded) {
  TestServer served({.max_unsent = 1 << 20});
  Client client(served.port(), 4096);
  auto responder = served.hold(client);
  ASSERT_TRUE(responder);
  Event gone;
  responder->on_gone([&gone] { gone.set(); });
  responder->start_stream(200, {});
  const std::string part(64 * 1024, 'x');
  size_t taken = 0;
  while (taken < (size_t{256} << 20) && responder->write(part)) {
    taken += part.size();
    std::this_thread::sleep_for(1ms);
  }
  // What the server may hold, and what the system holds for a socket.
  EXPECT_LT(taken, size_t{32} << 20);
  EXPECT_TRUE(gone.wait());
  EXPECT_FALSE(responder->write("x"));
  EXPECT_TRUE(client.read_end());
  EXPECT_TRUE(served.is_well());
}

TEST(HttpSlow, AReaderWithoutProgressIsGivenUp) {
  TestServer served({.write_timeout = 1s});
  Client client(served.port(), 4096);
  auto responder = served.hold(client);
  ASSERT_TRUE(responder);
  responder->send(200, {}, std::string(64 << 20, 'x'));
  std::this_thread::sleep_for(2500ms);
  const Response response = client.read_response();
  EXPECT_EQ(response.status, 200);
  EXPECT_FALSE(response.complete);
}

TEST(HttpSlow, AReaderWithProgressIsNot) {
  TestServer served({.write_timeout = 1s});
  Client client(served.port(), 65536);
  auto responder = served.hold(client);
  ASSERT_TRUE(responder);
  responder->send(200, {}, std::string(8 << 20, 'x'));
  const Response response = client.read_response();
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(response.body.size(), size_t{8} << 20);
}

TEST(HttpSlow, HeadersDripByDrip) {
  TestServer served({.header_timeout = 1s});
  Client client(served.port());
  ASSERT_TRUE(client.send("GET / HTTP/1.1\r\nHost: localhost\r\nX: "));
  const auto begun = Clock::now();
  while (Clock::now() - begun < 5s && client.send("a") && !client.read_until("408", 100ms)) {
  }
  EXPECT_LT(Clock::now() - begun, 4s);
  EXPECT_EQ(client.read_response().status, 408);
  EXPECT_TRUE(client.read_end(8s));
}

TEST(HttpSlow, ABodyThatStopsHalfWay) {
  TestServer served({.body_timeout = 1s});
  Client client(served.port());
  const std::string request = post("0123456789");
  ASSERT_TRUE(client.send(request.substr(0, request.size() - 5)));
  EXPECT_TRUE(served.is_well()) << "others are answered meanwhile";
  const Response response = client.read_response();
  EXPECT_EQ(response.status, 408);
  EXPECT_EQ(boost::json::parse(response.body).at("error").at("code"), "request_timeout");
}

TEST(HttpSlow, SharedCase) {
  const std::string path = ondol::test::shared_path("cases/http_requests.jsonl");
  if (path.empty()) GTEST_SKIP() << ondol::test::kNoShared;
  for (const auto& one : ondol::test::read_json_lines(path)) {
    if (one.at("id") != "http-slow-body") continue;
    std::atomic<int> refused = 0;
    TestServer served({.body_timeout = 1s, .on_refusal = [&](int status) { refused = status; }});
    Client client(served.port());
    const std::string target(one.at("input").at("path").as_string());
    ASSERT_TRUE(client.send(
        "POST " + target + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n0123456789"));
    const auto sent = Clock::now();
    EXPECT_TRUE(served.is_well()) << one.at("expected").at("checks").at(0).as_string().c_str();
    EXPECT_LT(Clock::now() - sent, 1s) << "before the slow one has ended";
    const auto expected = one.at("expected").at("status").as_int64();
    EXPECT_EQ(client.read_response().status, expected);
    EXPECT_EQ(refused, expected) << "it is counted";
    return;
  }
  FAIL() << "the case is gone";
}

TEST(HttpSlow, IdleConnectionsAreClosed) {
  TestServer served({.header_timeout = 1s, .idle_timeout = 1s});
  Client silent(served.port());
  Client idle(served.port());
  ASSERT_TRUE(idle.send(post("x")));
  EXPECT_EQ(idle.read_response().status, 200);
  EXPECT_TRUE(idle.read_end(5s));
  EXPECT_EQ(idle.unread(), "");
  EXPECT_TRUE(silent.read_end(5s));
  EXPECT_EQ(silent.unread(), "");
}

TEST(HttpLimits, TooManyConnections) {
  TestServer served({.max_connections = 3});
  std::vector<std::unique_ptr<Client>> full;
  for (int i = 0; i < 3; ++i) {
    full.push_back(std::make_unique<Client>(served.port()));
    ASSERT_TRUE(full.back()->send(post("x")));
    EXPECT_EQ(full.back()->read_response().status, 200);
  }
  {
    Client more(served.port());
    ASSERT_TRUE(more.send(post("x")));
    const Response response = more.read_response();
    EXPECT_EQ(response.status, 503);
    EXPECT_FALSE(response.header("retry-after").empty());
    EXPECT_EQ(boost::json::parse(response.body).at("error").at("type"), "server_error");
    EXPECT_TRUE(more.read_end());
  }
  ASSERT_TRUE(full[0]->send(post("still")));
  EXPECT_EQ(full[0]->read_response().status, 200);
  full.pop_back();
  bool well = false;
  for (int i = 0; i < 100 && !well; ++i) {
    std::this_thread::sleep_for(20ms);
    Client again(served.port());
    again.send(post("x"));
    well = again.read_response().status == 200;
  }
  EXPECT_TRUE(well);
}

TEST(HttpKeys, AreAskedForAndReloaded) {
  const std::string path = testing::TempDir() + "http_keys.txt";
  std::ofstream(path) << "alice:k-123\nbob:k-456\n";
  TestServer served({.api_key_file = path, .cors_origins = {"https://app.example"}});
  Client client(served.port());
  const auto ask = [&](const std::string& more) {
    client.send(post("x", more));
    return client.read_response();
  };
  for (const char* more :
       {"", "Authorization: Bearer nope\r\n", "Authorization: Basic k-123\r\n"}) {
    Client other(served.port());
    other.send(post("x", more));
    const Response response = other.read_response();
    EXPECT_EQ(response.status, 401) << more;
    EXPECT_TRUE(response.header("www-authenticate").starts_with("Bearer"));
    EXPECT_EQ(boost::json::parse(response.body).at("error").at("code"), "invalid_api_key");
  }
  EXPECT_EQ(ask("Authorization: bearer k-123\r\n").body, "POST /echo? [alice] x");
  EXPECT_EQ(ask("Authorization: Bearer k-456\r\n").body, "POST /echo? [bob] x");
  ASSERT_TRUE(client.send(get("/health")));
  EXPECT_EQ(client.read_response().status, 200);

  std::ofstream(path) << "broken\n";
  const auto wrong = served.server->reload_keys();
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("line 1"), std::string::npos);
  EXPECT_EQ(ask("Authorization: Bearer k-456\r\n").status, 200) << "the keys stay as they were";

  std::ofstream(path) << "alice:k-123\n";
  ASSERT_TRUE(served.server->reload_keys());
  EXPECT_EQ(ask("Authorization: Bearer k-123\r\n").status, 200);
  EXPECT_EQ(ask("Authorization: Bearer k-456\r\n").status, 401) << "also on an open connection";
}

TEST(HttpKeys, ABodyWithoutAKeyIsNotRead) {
  const std::string path = testing::TempDir() + "http_keys_body.txt";
  std::ofstream(path) << "alice:k-123\n";
  TestServer served({.api_key_file = path});
  Client client(served.port());
  ASSERT_TRUE(client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"));
  EXPECT_EQ(client.read_response().status, 401) << "before the body came";
}

TEST(HttpPages, OnlyListedOriginsMayAsk) {
  TestServer served({.cors_origins = {"https://app.example"}});
  Client client(served.port());
  const auto preflight = [&](const std::string& origin) {
    client.send("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: " + origin +
                "\r\nAccess-Control-Request-Method: POST\r\n"
                "Access-Control-Request-Headers: authorization,content-type\r\n\r\n");
    return client.read_response();
  };
  const Response allowed = preflight("https://app.example");
  EXPECT_EQ(allowed.status, 204);
  EXPECT_EQ(allowed.header("access-control-allow-origin"), "https://app.example");
  EXPECT_NE(allowed.header("access-control-allow-methods").find("POST"), std::string_view::npos);
  EXPECT_EQ(allowed.header("vary"), "Origin");
  const Response other = preflight("https://evil.example");
  EXPECT_EQ(other.head.find("Access-Control"), std::string::npos);
  ASSERT_TRUE(client.send(post("x", "Origin: https://app.example\r\n")));
  const Response answer = client.read_response();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("access-control-allow-origin"), "https://app.example");
  ASSERT_TRUE(client.send(get("/x", "Origin: https://evil.example\r\n")));
  EXPECT_EQ(client.read_response().head.find("Access-Control"), std::string::npos);
  ASSERT_TRUE(client.send(post("x", "Origin: https://evil.example\r\n")));
  EXPECT_EQ(client.read_response().status, 403);
}

TEST(HttpPages, NamesThatPointHereAreRefused) {
  TestServer served;
  Client client(served.port());
  ASSERT_TRUE(client.send("GET /x HTTP/1.1\r\nHost: rebound.example:8080\r\n\r\n"));
  const Response response = client.read_response();
  EXPECT_EQ(response.status, 403);
  EXPECT_EQ(boost::json::parse(response.body).at("error").at("code"), "host_not_allowed");
  ASSERT_TRUE(client.send("GET /x HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"));
  EXPECT_EQ(client.read_response().status, 200);
}

TEST(HttpStop, IdleAtOnceAndAnswersUnderWayEnd) {
  TestServer served;
  Client idle(served.port());
  ASSERT_TRUE(idle.send(post("x")));
  EXPECT_EQ(idle.read_response().status, 200);
  Client half(served.port());
  ASSERT_TRUE(half.send("GET / HT"));
  Client busy(served.port());
  auto responder = served.hold(busy);
  ASSERT_TRUE(responder);
  std::atomic<bool> stopped = false;
  std::thread stopper([&] {
    served.server->stop(20s);
    stopped = true;
  });
  EXPECT_TRUE(idle.read_end());
  EXPECT_TRUE(half.read_end());
  EXPECT_FALSE(stopped);
  responder->send(200, {}, "last words");
  const Response response = busy.read_response();
  EXPECT_EQ(response.body, "last words");
  EXPECT_EQ(response.header("connection"), "close");
  const auto answered = Clock::now();
  stopper.join();
  EXPECT_LT(Clock::now() - answered, 5s) << "it does not wait longer than it has to";
  const Client late(served.port());
  EXPECT_FALSE(late.connected());
}

TEST(HttpStop, TheGraceIsLimited) {
  TestServer served;
  Client busy(served.port());
  auto responder = served.hold(busy);
  ASSERT_TRUE(responder);
  Event gone;
  responder->on_gone([&gone] { gone.set(); });
  const auto begun = Clock::now();
  served.server->stop(1s);
  EXPECT_GE(Clock::now() - begun, 900ms);
  EXPECT_LT(Clock::now() - begun, 5s);
  EXPECT_EQ(gone.count(), 1);
  EXPECT_TRUE(busy.read_end());
  served.server->stop(1s);  // a second time: nothing is left to do
}

TEST(HttpStop, ResponderOutlivesTheServer) {
  std::shared_ptr<Responder> responder;
  {
    TestServer served;
    Client busy(served.port());
    ASSERT_TRUE(busy.send(get("/held")));
    responder = served.take();
    ASSERT_TRUE(responder);
    responder->start_stream(200, {});
  }
  EXPECT_FALSE(responder->write("x"));
  responder->end();
  Event gone;
  responder->on_gone([&gone] { gone.set(); });
  EXPECT_EQ(gone.count(), 1);
}

TEST(HttpStart, ErrorsSayWhatToDo) {
  const auto start = [](HttpOptions options) {
    const auto started =
        HttpServer::start(options, [](HttpRequest, const std::shared_ptr<Responder>&) {});
    return started ? Error{ErrorKind::kFailed, ""} : started.error();
  };
  for (const char* host : {"0.0.0.0", "::", "192.0.2.1"}) {
    const Error error = start({.host = host, .port = 0});
    EXPECT_EQ(error.kind, ErrorKind::kUsage) << host;
    EXPECT_NE(error.message.find("--api-key-file"), std::string::npos) << error.message;
  }
  EXPECT_EQ(start({.host = "no such host", .port = 0}).kind, ErrorKind::kUsage);
  EXPECT_EQ(start({.host = "", .port = 0}).kind, ErrorKind::kUsage);
  EXPECT_EQ(start({.port = 0, .api_key_file = "/nonexistent"}).kind, ErrorKind::kUsage);
  EXPECT_EQ(start({.port = 0, .cors_origins = {"app.example"}}).kind, ErrorKind::kUsage);
  for (const char* host : {"127.0.0.2", "localhost"})
    EXPECT_EQ(start({.host = host, .port = 0}).message, "");

  TestServer served;
  const Error taken = start({.port = served.port()});
  EXPECT_EQ(taken.kind, ErrorKind::kFailed);
  EXPECT_NE(taken.message.find(std::to_string(served.port())), std::string::npos);
  EXPECT_NE(taken.message.find("--port"), std::string::npos) << taken.message;
}

TEST(HttpStart, WithKeysOnEveryNetwork) {
  const std::string path = testing::TempDir() + "http_keys_all.txt";
  std::ofstream(path) << "alice:k-123\n";
  TestServer served({.host = "0.0.0.0", .api_key_file = path});
  Client client(served.port());
  ASSERT_TRUE(
      client.send("GET /x HTTP/1.1\r\nHost: any.example\r\nAuthorization: Bearer k-123\r\n\r\n"));
  EXPECT_EQ(client.read_response().status, 200);
}

TEST(HttpStart, Ipv6) {
  const auto started = HttpServer::start(
      {.host = "::1", .port = 0}, [](HttpRequest, const std::shared_ptr<Responder>& responder) {
        responder->send(200, {}, "");
      });
  if (!started) GTEST_SKIP() << "no IPv6 here: " << started.error().message;
  const int fd = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons((*started)->port());
  address.sin6_addr = in6addr_loopback;
  EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(fd);
}

}  // namespace
}  // namespace ondol::serve::test
