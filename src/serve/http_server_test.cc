#include "serve/http_server.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <random>

#include "serve/test_client.h"

namespace ondol::serve::test {
namespace {

std::string error_code_of(const Response& response) {
  const auto value = boost::json::parse(response.body);
  EXPECT_FALSE(value.at("error").at("message").as_string().empty());
  return std::string(value.at("error").at("code").as_string());
}

TEST(HttpServer, AnswersAndKeepsTheConnection) {
  TestServer served;
  Client client(served.port());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.send(post("hi", "X-A: b\r\n", "/a%20b?c=d")));
    const Response response = client.read_response();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "POST /a b?c=d [] hi");
    EXPECT_EQ(response.header("connection"), "keep-alive");
    EXPECT_EQ(response.header("x-content-type-options"), "nosniff");
    EXPECT_EQ(response.header("cache-control"), "no-store");
    EXPECT_EQ(response.header("content-type"), "text/plain");
    EXPECT_EQ(response.head.find("Access-Control"), std::string::npos);
    EXPECT_FALSE(response.header("date").empty());
  }
  ASSERT_TRUE(client.send(get("/x", "Connection: close\r\n")));
  EXPECT_EQ(client.read_response().header("connection"), "close");
  EXPECT_TRUE(client.read_end());
}

TEST(HttpServer, PipelinedRequestsAreAnsweredInOrder) {
  TestServer served;
  Client client(served.port());
  ASSERT_TRUE(client.send(get("/held") + post("second") + get("/stream") + post("fourth")));
  auto first = served.take();
  ASSERT_TRUE(first);
  std::this_thread::sleep_for(50ms);
  first->send(200, {}, "first");
  EXPECT_EQ(client.read_response().body, "first");
  EXPECT_EQ(client.read_response().body, "POST /echo? [] second");
  EXPECT_EQ(client.read_response().body, "one two three");
  EXPECT_EQ(client.read_response().body, "POST /echo? [] fourth");
}

TEST(HttpServer, ManyPipelinedBytesWaitOutside) {
  TestServer served;
  Client client(served.port());
  auto first = served.hold(client);
  ASSERT_TRUE(first);
  const std::string body(200 * 1024, 'x');
  ASSERT_TRUE(client.send(post(body) + post(body)));
  std::this_thread::sleep_for(300ms);
  first->send(200, {}, "first");
  EXPECT_EQ(client.read_response().body, "first");
  EXPECT_EQ(client.read_response().body, "POST /echo? [] " + body);
  EXPECT_EQ(client.read_response().body, "POST /echo? [] " + body);
}

TEST(HttpServer, HeadAndOptions) {
  TestServer served;
  Client client(served.port());
  ASSERT_TRUE(
      client.send("HEAD /echo HTTP/1.1\r\nHost: localhost\r\n\r\n"
                  "HEAD /stream HTTP/1.1\r\nHost: localhost\r\n\r\n"
                  "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n" +
                  get("/after")));
  const Response head = client.read_response(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("content-length"), std::to_string(std::string("GET /echo? [] ").size()));
  EXPECT_EQ(client.read_response(true).header("transfer-encoding"), "chunked");
  const Response options = client.read_response();
  EXPECT_EQ(options.status, 204);
  EXPECT_NE(options.header("allow").find("POST"), std::string_view::npos);
  EXPECT_EQ(options.header("content-length"), "");
  EXPECT_EQ(client.read_response().body, "GET /after? [] ");
}

TEST(HttpServer, ExpectContinue) {
  TestServer served({.max_body = 1000});
  Client client(served.port());
  const std::string request = post("hi", "Expect: 100-continue\r\n");
  ASSERT_TRUE(client.send(request.substr(0, request.size() - 2)));
  EXPECT_EQ(client.read_response().status, 100);
  ASSERT_TRUE(client.send("hi"));
  EXPECT_EQ(client.read_response().body, "POST /echo? [] hi");
  ASSERT_TRUE(client.send(
      "POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 9999999999"
      "\r\n\r\n"));
  const Response large = client.read_response();
  EXPECT_EQ(large.status, 413) << "and no interim answer";
  EXPECT_EQ(error_code_of(large), "request_too_large");
}

TEST(HttpServer, ChunkedBodies) {
  TestServer served({.max_body = 1000});
  const std::string head =
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  Client client(served.port());
  const std::string chunks = "3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nAuthorization: x\r\n\r\n";
  for (const char c : head + chunks) ASSERT_TRUE(client.send(std::string(1, c)));
  EXPECT_EQ(client.read_response().body, "POST /echo? [] abcde");
  std::string many = head;
  for (int i = 0; i < 11; ++i) many += "64\r\n" + std::string(100, 'x') + "\r\n";
  ASSERT_TRUE(client.send(many + "0\r\n\r\n"));
  EXPECT_EQ(client.read_response().status, 413);
  const std::string wrong[] = {"zz\r\n", "5\r\nabcdefgh\r\n", "1;" + std::string(100000, 'a'),
                               "ffffffffffffffffff\r\n", "-1\r\n"};
  for (const std::string& bad : wrong) {
    Client other(served.port());
    other.send(head + bad);
    const int status = other.read_response().status;
    EXPECT_TRUE(status == 400 || status == 413) << bad.substr(0, 20) << " " << status;
  }
  EXPECT_TRUE(served.is_well());
}

TEST(HttpServer, ABodyAboveTheLimitIsAnsweredReadably) {
  TestServer served({.max_body = 1000});
  const std::string body(32 << 20, 'x');
  Client client(served.port());
  EXPECT_TRUE(client.send(post(body))) << "the whole body can be sent before the answer is read";
  const Response response = client.read_response();
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(response.header("connection"), "close");
  EXPECT_EQ(error_code_of(response), "request_too_large");
  EXPECT_TRUE(client.read_end());
  Client fits(served.port());
  ASSERT_TRUE(fits.send(post(body.substr(0, 1000))));
  EXPECT_EQ(fits.read_response().status, 200);
}

TEST(HttpServer, HeadersAboveTheLimit) {
  TestServer served;
  Client one(served.port());
  EXPECT_TRUE(one.send(get("/", "X-Long: " + std::string(1 << 20, 'a') + "\r\n")));
  EXPECT_EQ(one.read_response().status, 431);
  Client target(served.port());
  target.send("GET /" + std::string(1 << 20, 'a') + " HTTP/1.1\r\n\r\n");
  EXPECT_EQ(target.read_response().status, 431);
  std::string many;
  for (int i = 0; i < 100000; ++i) many += "a: b\r\n";
  Client lines(served.port());
  lines.send(get("/", many));
  EXPECT_EQ(lines.read_response().status, 431);
  EXPECT_TRUE(served.is_well());
}

TEST(HttpServer, MalformedRequestsGetTheirStatus) {
  TestServer served;
  const std::string host = "Host: localhost\r\n";
  const std::pair<std::string, int> cases[] = {
      {"garbage\r\n\r\n", 400},
      {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 15), 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + host + "\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + "bad header\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + "A : b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + std::string("A: \0\r\n\r\n", 8), 400},
      {"GET /%zz HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /%00 HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET  / HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET / HTTP/2.0\r\n" + host + "\r\n", 505},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: x\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
       400},
      {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
       400},
      {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\n\r\n", 501},
      {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
      {"CONNECT localhost:80 HTTP/1.1\r\n" + host + "\r\n", 405},
      {"TRACE / HTTP/1.1\r\n" + host + "\r\n", 405},
      {"POST / HTTP/1.1\r\n" + host + "Expect: magic\r\nContent-Length: 1\r\n\r\n", 417},
  };
  for (const auto& [bytes, status] : cases) {
    Client client(served.port());
    ASSERT_TRUE(client.send(bytes)) << bytes;
    const Response response = client.read_response();
    EXPECT_EQ(response.status, status) << bytes;
    EXPECT_EQ(response.header("connection"), "close") << bytes;
    EXPECT_FALSE(error_code_of(response).empty()) << bytes;
    EXPECT_TRUE(client.read_end()) << bytes;
  }
  EXPECT_TRUE(served.is_well());
}

TEST(HttpServer, EmptyLinesBeforeARequestAreSkipped) {
  TestServer served;
  Client client(served.port());
  ASSERT_TRUE(client.send("\r\n\r\n" + get("/a") + "\r\n" + get("/b")));
  EXPECT_EQ(client.read_response().body, "GET /a? [] ");
  EXPECT_EQ(client.read_response().body, "GET /b? [] ");
}

TEST(HttpServer, OldClients) {
  TestServer served;
  Client plain(served.port());
  ASSERT_TRUE(plain.send("GET /a HTTP/1.0\r\n\r\n"));
  EXPECT_EQ(plain.read_response().body, "GET /a? [] ");
  EXPECT_TRUE(plain.read_end());
  Client lasting(served.port());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(lasting.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    EXPECT_EQ(lasting.read_response().header("connection"), "keep-alive");
  }
  ASSERT_TRUE(lasting.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
  const Response stream = lasting.read_response();
  EXPECT_EQ(stream.header("transfer-encoding"), "");
  EXPECT_EQ(stream.body, "one two three");
  EXPECT_TRUE(stream.complete);
}

TEST(HttpServer, StreamsPartByPart) {
  TestServer served;
  Client client(served.port());
  auto responder = served.hold(client);
  ASSERT_TRUE(responder);
  responder->start_stream(200, {{"Content-Type", "text/event-stream"}});
  for (const char* part : {"data: 1\n\n", "data: 2\n\n"}) {
    EXPECT_TRUE(responder->write(part));
    EXPECT_TRUE(client.read_until(part)) << "it passes before the next one is written";
  }
  responder->end();
  EXPECT_FALSE(responder->write("late"));
  responder->send(200, {}, "late");
  const Response response = client.read_response();
  EXPECT_EQ(response.body, "data: 1\n\ndata: 2\n\n");
  EXPECT_TRUE(response.complete);
  ASSERT_TRUE(client.send(post("next")));
  EXPECT_EQ(client.read_response().body, "POST /echo? [] next");
}

TEST(HttpServer, EveryRequestGetsOneAnswer) {
  TestServer served;
  Client client(served.port());
  for (const char* path : {"/lost", "/throw"}) {
    ASSERT_TRUE(client.send(get(path)));
    const Response response = client.read_response();
    EXPECT_EQ(response.status, 500) << path;
    EXPECT_EQ(error_code_of(response), "internal_error");
    EXPECT_EQ(response.body.find("thrown"), std::string::npos);
  }
  auto responder = served.hold(client);
  ASSERT_TRUE(responder);
  responder->start_stream(200, {});
  EXPECT_TRUE(responder->write("half"));
  ASSERT_TRUE(client.read_until("half"));
  responder.reset();
  const Response cut = client.read_response();
  EXPECT_EQ(cut.status, 200);
  EXPECT_FALSE(cut.complete) << "a stream without its end does not look complete";
  EXPECT_TRUE(client.read_end());
}

TEST(HttpServer, ThousandRequestsOneAfterAnother) {
  TestServer served;
  Client client(served.port());
  for (int i = 0; i < 1000; ++i) {
    const std::string body = std::to_string(i);
    ASSERT_TRUE(client.send(post(body)));
    ASSERT_EQ(client.read_response().body, "POST /echo? [] " + body);
  }
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(served.is_well());
}

TEST(HttpServer, TwoHundredAtOnce) {
  TestServer served({.threads = 2});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 200; ++i) clients.push_back(std::make_unique<Client>(served.port()));
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < clients.size(); ++i) {
      ASSERT_TRUE(clients[i]->send(i % 3 == 0 ? get("/stream") : post(std::to_string(i))));
    }
    for (size_t i = 0; i < clients.size(); ++i) {
      const std::string want = i % 3 == 0 ? "one two three" : "POST /echo? [] " + std::to_string(i);
      ASSERT_EQ(clients[i]->read_response().body, want);
    }
  }
}

TEST(HttpServer, ParallelAnswersFromOtherThreads) {
  TestServer served({.threads = 2});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&served] {
      Client client(served.port());
      for (int k = 0; k < 20; ++k) {
        client.send(get("/held"));
        const auto responder = served.take();
        ASSERT_TRUE(responder);
        responder->start_stream(200, {});
        for (int part = 0; part < 10; ++part) responder->write(std::string(100, 'x'));
        responder->end();
        EXPECT_EQ(client.read_response().body.size(), 1000U);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(HttpServer, RubbishHarmsNobody) {
  TestServer served({.max_body = 10000, .max_header = 4096});
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed): the same run every time
  const std::string seeds[] = {
      post("{\"a\":1}", "Expect: 100-continue\r\n"), get("/stream"),
      "POST /e HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;x=\"y\"\r\nabc\r\n0\r\nA: b\r\n\r\n",
      "OPTIONS /x HTTP/1.0\r\nOrigin: http://a\r\nConnection: keep-alive\r\n\r\n"};
  for (int i = 0; i < 400; ++i) {
    std::string bytes = seeds[random() % std::size(seeds)];
    for (unsigned k = random() % 6; k > 0; --k) {
      const size_t at = random() % bytes.size();
      const auto kind = random() % 4;
      if (kind == 0) bytes[at] = static_cast<char>(random());
      if (kind == 1) bytes.insert(at, 1 + random() % 3, static_cast<char>(random()));
      if (kind == 2) bytes.erase(at, 1 + random() % 4);
      if (kind == 3) bytes.insert(at, seeds[random() % std::size(seeds)].substr(0, random() % 80));
      if (bytes.empty()) bytes.push_back('\r');
    }
    Client client(served.port());
    client.send(bytes);
    if (random() % 3 == 0) client.half_close();
    if (random() % 5 == 0) {
      client.reset();
      continue;
    }
    const Response response = client.read_response(false, 20ms);
    if (response.status != 0) {
      EXPECT_TRUE(response.status >= 100 && response.status < 506);
    }
  }
  for (int i = 0; i < 50; ++i) {
    std::string noise(1 + random() % 5000, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    Client client(served.port());
    client.send(noise);
  }
  EXPECT_TRUE(served.is_well());
}

TEST(HttpServer, HalfRequestsHarmNobody) {
  TestServer served;
  const std::string whole = post("0123456789");
  std::vector<std::unique_ptr<Client>> open;
  for (size_t length = 0; length < whole.size(); length += 3) {
    open.push_back(std::make_unique<Client>(served.port()));
    ASSERT_TRUE(open.back()->send(whole.substr(0, length)));
  }
  EXPECT_TRUE(served.is_well());
  for (auto& client : open) {
    client->half_close();
    EXPECT_TRUE(client->read_end());
  }
}

}  // namespace
}  // namespace ondol::serve::test
