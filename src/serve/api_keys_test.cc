#include "serve/api_keys.h"

#include <gtest/gtest.h>

#include <fstream>

namespace ondol::serve {
namespace {

using namespace std::string_literals;

// SHA-256 of "abc" (FIPS 180-4, appendix).
constexpr const char* kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(ApiKeys, ReadsBothKindsOfLines) {
  const auto keys = ApiKeys::parse("# who\n\nalice:k-123\r\n  bob sha256:"s + kAbc + "  \n", "f");
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(keys->find("k-123"), "alice");
  EXPECT_EQ(keys->find("abc"), "bob");
  for (const char* wrong : {"", "k-12", "k-1234", "K-123", "alice", "alice:k-123", kAbc}) {
    EXPECT_EQ(keys->find(wrong), std::nullopt) << wrong;
  }
  EXPECT_EQ(keys->find(std::string(100000, 'k')), std::nullopt);
}

TEST(ApiKeys, AKeyMayHoldColonsAndHashes) {
  const auto keys = ApiKeys::parse("a:x:y#z", "f");
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(keys->find("x:y#z"), "a");
}

TEST(ApiKeys, WrongLinesAreNamedAndKeysNeverShown) {
  const std::string good = "alice:s3cret-one\n";
  const std::string bad[] = {"s3cret",
                             ":s3cret",
                             "bob:",
                             "bob:s3cret two",
                             "b b:s3cret",
                             "bob sha256:s3cret",
                             "bob s3cret",
                             "alice:s3cret-two",
                             "bob:s3cret-one",
                             "bob:s3cr\x01t",
                             "bob:s3cr\xc3\xa4t",
                             std::string(65, 'n') + ":s3cret",
                             "bob sha256:"s + kAbc + "00",
                             "bob:" + std::string(513, 's')};
  for (const std::string& line : bad) {
    const auto keys = ApiKeys::parse(good + line + "\n", "keys.txt");
    ASSERT_FALSE(keys) << line;
    EXPECT_EQ(keys.error().kind, ErrorKind::kRefused);
    EXPECT_NE(keys.error().message.find("keys.txt, line 2"), std::string::npos)
        << keys.error().message;
    EXPECT_EQ(keys.error().message.find("s3cr"), std::string::npos) << keys.error().message;
  }
}

TEST(ApiKeys, AFileWithoutKeysIsRefused) {
  for (const char* text : {"", "\n\n", "# alice:k\n"}) EXPECT_FALSE(ApiKeys::parse(text, "f"));
  EXPECT_FALSE(ApiKeys::load(Env::real(), "/nonexistent/keys"));
}

TEST(ApiKeys, LoadsAFile) {
  const std::string path = testing::TempDir() + "api_keys_test.txt";
  std::ofstream(path) << "\xef\xbb\xbf" << "alice:k-123";
  const auto keys = ApiKeys::load(Env::real(), path);
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(keys->find("k-123"), "alice");
}

TEST(BearerKey, SchemeInAnyCase) {
  EXPECT_EQ(bearer_key("Bearer k-123"), "k-123");
  EXPECT_EQ(bearer_key("bearer  k-123 "), "k-123");
  for (const char* none : {"", "Bearer", "Bearer ", "Basic k-123", "Bearerk-123", "k-123"}) {
    EXPECT_EQ(bearer_key(none), "") << none;
  }
}

}  // namespace
}  // namespace ondol::serve
