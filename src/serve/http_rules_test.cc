#include "serve/http_rules.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace ondol::serve {
namespace {

RequestHead head(Headers more, std::string method = "POST", int version = 11) {
  Headers headers = {{"host", "127.0.0.1:8080"}};
  headers.insert(headers.end(), more.begin(), more.end());
  return {std::move(method), "/", version, std::move(headers)};
}

int status_of(const RequestHead& request) {
  const auto refusal = check_head(request);
  return refusal ? refusal->status : 0;
}

TEST(HttpRules, Targets) {
  const auto plain = parse_target("/v1/a%20b%2Fc?x=%20y?z");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->path, "/v1/a b/c");
  EXPECT_EQ(plain->query, "x=%20y?z");
  const auto absolute = parse_target("http://Host.example:80?q");
  ASSERT_TRUE(absolute);
  EXPECT_EQ(absolute->path, "/");
  EXPECT_EQ(absolute->query, "q");
  EXPECT_EQ(absolute->authority, "Host.example:80");
  EXPECT_EQ(parse_target("/%ED%95%9C")->path, "/\xed\x95\x9c");
  EXPECT_EQ(parse_target("*")->path, "*");
  for (const char* bad :
       {"", "x", "ftp://h/", "/%", "/%4", "/%zz", "/%00", "/%0a", "/%ff", "/%ed%a0%80", "/a#b",
        "http:///x", "http://a@b@/", "/%c3", "/?\xff", "/%f4%90%80%80", "/%c0%af"}) {
    EXPECT_FALSE(parse_target(bad)) << bad;
  }
}

TEST(HttpRules, FramingThatTwoPartiesCouldReadDifferently) {
  EXPECT_EQ(status_of(head({})), 0);
  EXPECT_EQ(status_of(head({{"content-length", "5"}})), 0);
  EXPECT_EQ(status_of(head({{"transfer-encoding", "Chunked"}})), 0);
  EXPECT_EQ(status_of(head({{"content-length", "5"}, {"transfer-encoding", "chunked"}})), 400);
  EXPECT_EQ(status_of(head({{"content-length", "5"}, {"content-length", "5"}})), 400);
  for (const char* length : {"5, 5", "+5", "-5", "0x5", "", "99999999999999999999"}) {
    EXPECT_EQ(status_of(head({{"content-length", length}})), 400) << length;
  }
  for (const char* coding : {"gzip", "gzip, chunked", "chunked, chunked", "xchunked", "identity"}) {
    EXPECT_EQ(status_of(head({{"transfer-encoding", coding}})), 501) << coding;
  }
  EXPECT_EQ(status_of(head({{"transfer-encoding", "chunked"}, {"transfer-encoding", "x"}})), 501);
  EXPECT_EQ(status_of(head({{"transfer-encoding", "chunked"}}, "POST", 10)), 400);
}

TEST(HttpRules, HostMethodExpectationAndCoding) {
  EXPECT_EQ(status_of({"GET", "/", 11, {}}), 400);
  EXPECT_EQ(status_of({"GET", "/", 10, {}}), 0);
  EXPECT_EQ(status_of(head({{"host", "b"}})), 400);
  EXPECT_EQ(status_of({"GET", "/", 11, {{"host", "a b"}}}), 400);
  EXPECT_EQ(status_of({"GET", "/", 11, {{"host", "a:99999999"}}}), 400);
  EXPECT_EQ(status_of(head({}, "TRACE")), 405);
  EXPECT_EQ(status_of(head({}, "CONNECT")), 405);
  EXPECT_EQ(status_of(head({{"expect", "100-Continue"}})), 0);
  EXPECT_EQ(status_of(head({{"expect", "200-ok"}})), 417);
  EXPECT_EQ(status_of(head({{"content-encoding", "gzip"}})), 415);
}

TEST(HttpRules, OwnHosts) {
  for (const char* own : {"localhost", "LOCALHOST:8080", "127.0.0.1", "127.8.9.1:1", "[::1]:8080",
                          "a.localhost", "bound.example:9"}) {
    EXPECT_TRUE(is_own_host(own, "bound.example")) << own;
  }
  for (const char* other : {"", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example",
                            "127.0.0", "127.0.0.1.1", "128.0.0.1", "xlocalhost", "[::2]", "[::1",
                            "127.0.0.1@evil", "notbound.example"}) {
    EXPECT_FALSE(is_own_host(other, "bound.example")) << other;
  }
}

TEST(HttpRules, Origins) {
  for (const char* good : {"*", "null", "https://app.example", "http://localhost:3000",
                           "chrome-extension://abc", "http://[::1]:80"}) {
    EXPECT_TRUE(is_origin(good)) << good;
  }
  for (const char* bad :
       {"", "app.example", "https://app.example/", "://x", "https://", "a b://x"}) {
    EXPECT_FALSE(is_origin(bad)) << bad;
  }
  EXPECT_TRUE(same_origin("http://LOCALHOST:80", "localhost:80"));
  EXPECT_FALSE(same_origin("http://localhost:81", "localhost:80"));
  EXPECT_FALSE(same_origin("null", ""));
}

TEST(HttpRules, CorsForListedOriginsAlone) {
  const std::vector<std::string> list = {"https://app.example"};
  EXPECT_TRUE(cors_headers({}, "https://app.example").empty());
  EXPECT_EQ(cors_headers(list, "https://evil.example"), (Headers{{"Vary", "Origin"}}));
  const Headers allowed = cors_headers(list, "https://app.example");
  EXPECT_EQ(allowed[1], (std::pair<std::string, std::string>("Access-Control-Allow-Origin",
                                                             "https://app.example")));
  const RequestHead asks = head({{"origin", "https://app.example"},
                                 {"access-control-request-method", "POST"},
                                 {"access-control-request-headers", "x-stainless-os"}},
                                "OPTIONS");
  const std::string text = response_head(204, options_headers(list, asks), {});
  EXPECT_NE(text.find("Access-Control-Allow-Headers: authorization, content-type, x-stainless-os"),
            std::string::npos);
  EXPECT_NE(text.find("Access-Control-Allow-Methods: GET"), std::string::npos);
  EXPECT_EQ(response_head(204, options_headers({}, asks), {}).find("Access-Control"),
            std::string::npos);
}

TEST(HttpRules, PolicyWithKeys) {
  const auto keys = ApiKeys::parse("alice:k-123", "f");
  ASSERT_TRUE(keys);
  std::string client;
  const HttpOptions options;
  const auto ask = [&](const RequestHead& request, const char* path) {
    const auto refusal = check_policy(options, &*keys, request, *parse_target(path), client);
    return refusal ? refusal->status : 0;
  };
  EXPECT_EQ(ask(head({}), "/v1/models"), 401);
  EXPECT_EQ(ask(head({{"authorization", "Bearer nope"}}), "/v1/models"), 401);
  EXPECT_EQ(client, "");
  EXPECT_EQ(ask(head({{"authorization", "bearer k-123"}}), "/v1/models"), 0);
  EXPECT_EQ(client, "alice");
  EXPECT_EQ(ask(head({}, "GET"), "/health"), 0);
  EXPECT_EQ(ask(head({}, "POST"), "/health"), 401);
  EXPECT_EQ(ask(head({}, "GET"), "/health/x"), 401);
  EXPECT_EQ(ask({"GET", "/", 11, {{"host", "any.example"}}}, "/health"), 0);
}

TEST(HttpRules, PolicyWithoutKeysTrustsThisMachineAndNoPage) {
  std::string client;
  const HttpOptions options;
  const auto ask = [&](const RequestHead& request, const char* path) {
    const auto refusal = check_policy(options, nullptr, request, *parse_target(path), client);
    return refusal ? refusal->status : 0;
  };
  EXPECT_EQ(ask(head({}), "/x"), 0);
  EXPECT_EQ(ask({"GET", "/", 11, {{"host", "evil.example:8080"}}}, "/x"), 403);
  EXPECT_EQ(ask(head({}), "http://evil.example/x"), 403);
  EXPECT_EQ(ask(head({{"origin", "http://evil.example"}}), "/x"), 403);
  EXPECT_EQ(ask(head({{"origin", "http://127.0.0.1:8080"}}), "/x"), 0);
  EXPECT_EQ(ask(head({{"origin", "http://evil.example"}}, "GET"), "/x"), 0);
}

TEST(HttpRules, ErrorsHaveOpenAisShape) {
  const auto value = boost::json::parse(error_body(400, "a \"b\"", "c")).as_object();
  const auto& error = value.at("error").as_object();
  EXPECT_EQ(error.at("message"), "a \"b\"");
  EXPECT_EQ(error.at("type"), "invalid_request_error");
  EXPECT_TRUE(error.at("param").is_null());
  EXPECT_EQ(error.at("code"), "c");
  const auto inner = boost::json::parse(error_body(503, "m", ""));
  EXPECT_EQ(inner.at("error").at("type"), "server_error");
  EXPECT_TRUE(inner.at("error").at("code").is_null());
}

TEST(HttpRules, ResponseHeadsCannotBeSplit) {
  const std::string text = response_head(
      200, {{"X-A", "b\r\nX-Evil: 1"}, {"Bad Name", "x"}, {"Content-Length", "9"}, {"", "x"}},
      {Framing::Body::kLength, 3, true});
  EXPECT_EQ(text.find("\r\nX-Evil"), std::string::npos);
  EXPECT_EQ(text.find("Bad Name"), std::string::npos);
  EXPECT_EQ(text.find("Content-Length: 9"), std::string::npos);
  EXPECT_NE(text.find("\r\nContent-Length: 3\r\n"), std::string::npos);
  EXPECT_NE(text.find("\r\nX-Content-Type-Options: nosniff\r\n"), std::string::npos);
  EXPECT_NE(text.find("\r\nCache-Control: no-store\r\n"), std::string::npos);
  EXPECT_TRUE(text.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(text.ends_with("\r\n\r\n"));
}

TEST(HttpRules, Dates) {
  // The example of RFC 9110, section 5.6.7.
  EXPECT_EQ(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
}

}  // namespace
}  // namespace ondol::serve
