#include "store/http.h"

#include <gtest/gtest.h>

namespace ondol::store {
namespace {

TEST(HttpTest, OnlyHttpsOrThisMachine) {
  const std::string hub = "https://huggingface.co";
  const std::string local = "http://127.0.0.1:8000";
  EXPECT_TRUE(check_url(hub, "https://cdn.example/x"));
  EXPECT_TRUE(check_url(local, "http://127.0.0.1:9000/x"));
  EXPECT_TRUE(check_url(local, "http://localhost/x"));
  EXPECT_TRUE(check_url(local, "http://[::1]:80/x"));
  EXPECT_TRUE(check_url(local, "https://cdn.example/x"));
  EXPECT_FALSE(check_url(hub, "http://huggingface.co/x"));
  EXPECT_FALSE(check_url(hub, "http://127.0.0.1/x"));
  EXPECT_FALSE(check_url(local, "http://cdn.example/x"));
  EXPECT_FALSE(check_url(local, "http://127.evil.example/x"));
  EXPECT_FALSE(check_url(local, "http://127.0.0.1@evil.example/x"));
  for (const char* bad : {"", "x", "file:///etc/passwd", "ftp://127.0.0.1/x", "https://"}) {
    EXPECT_FALSE(check_url(local, bad)) << bad;
  }
}

TEST(HttpTest, OriginsCompareSchemeHostAndPort) {
  EXPECT_TRUE(same_origin("https://h/a", "https://H:443/b?c"));
  EXPECT_FALSE(same_origin("https://h/a", "http://h/a"));
  EXPECT_FALSE(same_origin("https://h/a", "https://h:444/a"));
  EXPECT_FALSE(same_origin("https://h/a", "https://h.evil/a"));
  EXPECT_FALSE(same_origin("https://h@evil/a", "https://h/a"));
}

TEST(HttpTest, BadOptionsAreUsageErrors) {
  const auto plain =
      HttpClient::make({.endpoint = "http://mirror.example", .token = "", .keep_going = {}});
  ASSERT_FALSE(plain);
  EXPECT_EQ(plain.error().kind, ErrorKind::kUsage);
  EXPECT_NE(plain.error().message.find("HF_ENDPOINT"), std::string::npos);
  const auto token =
      HttpClient::make({.endpoint = "https://h", .token = "a\r\nX: y", .keep_going = {}});
  ASSERT_FALSE(token);
  EXPECT_EQ(token.error().message.find("a\r"), std::string::npos) << "a token is never shown";
}

TEST(HttpTest, EncodesPaths) {
  EXPECT_EQ(encode_path("a b/ü?#%.gguf"), "a%20b/%C3%BC%3F%23%25.gguf");
}

}  // namespace
}  // namespace ondol::store
