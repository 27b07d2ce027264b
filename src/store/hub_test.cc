#include "store/hub.h"

#include <gtest/gtest.h>

#include <random>

#include "store/names.h"

namespace ondol::store {
namespace {

const std::string kSha(64, 'a');

std::vector<HubFile> repository() {
  return {{"m-Q4_K_M.gguf", 10, kSha},
          {"m-Q4_K_S.gguf", 9, kSha},
          {"m-IQ4_XS.gguf", 8, kSha},
          {"m_q8_0.gguf", 20, kSha},
          {"BF16/m-BF16-00002-of-00002.gguf", 30, kSha},
          {"BF16/m-BF16-00001-of-00002.gguf", 31, kSha},
          {"mmproj-Q8_0.gguf", 1, kSha},
          {"broken-F16-00001-of-00003.gguf", 1, kSha},
          {"broken-F16-00003-of-00003.gguf", 1, kSha}};
}

std::vector<std::string> selected(std::string_view selector) {
  const auto result = select_model(repository(), "o/r", selector);
  EXPECT_TRUE(result) << result.error().message;
  std::vector<std::string> paths;
  for (const auto& file : *result) paths.push_back(file.path);
  return paths;
}

TEST(HubTest, SelectsByQuantFileAndPath) {
  using Paths = std::vector<std::string>;
  EXPECT_EQ(selected("Q4_K_M"), Paths{"m-Q4_K_M.gguf"});
  EXPECT_EQ(selected("q4_k_m"), Paths{"m-Q4_K_M.gguf"});
  EXPECT_EQ(selected("Q8_0"), Paths{"m_q8_0.gguf"});
  EXPECT_EQ(selected("m-IQ4_XS.gguf"), Paths{"m-IQ4_XS.gguf"});
  EXPECT_EQ(selected("mmproj-Q8_0.gguf"), Paths{"mmproj-Q8_0.gguf"});
  const Paths parts{"BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf"};
  EXPECT_EQ(selected("BF16"), parts);
  EXPECT_EQ(selected("m-BF16-00002-of-00002.gguf"), parts);
}

TEST(HubTest, SaysWhatThereIsIfNothingOrTooMuchFits) {
  const auto none = select_model(repository(), "o/r", "Q4_K");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::kUsage);
  EXPECT_NE(none.error().message.find("m-Q4_K_M.gguf (10 B), m-Q4_K_S.gguf (9 B)"),
            std::string::npos)
      << none.error().message;
  const auto many = select_model(repository(), "o/r", "");
  ASSERT_FALSE(many);
  EXPECT_NE(many.error().message.find("several"), std::string::npos);
  const auto empty = select_model({}, "o/r", "");
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().message, "'o/r' has no GGUF file");
  EXPECT_FALSE(select_model(repository(), "o/r", "F16"));  // a part is missing
  EXPECT_TRUE(select_model({{"a.gguf", 1, kSha}, {"mmproj-a.gguf", 1, kSha}}, "o/r", ""));
}

TEST(HubTest, ReadsListings) {
  const auto files = parse_listing(R"([
    {"type":"directory","path":"x","size":0},
    {"type":"file","path":"README.md","size":5},
    {"type":"file","path":"a.gguf","size":134,"lfs":{"oid":")" +
                                   kSha + R"(","size":9000000000}},
    {"type":"file","path":"b.gguf","size":7}])");
  ASSERT_TRUE(files) << files.error().message;
  ASSERT_EQ(files->size(), 2u);
  EXPECT_EQ((*files)[0].size, 9000000000u);
  EXPECT_EQ((*files)[0].sha256, kSha);
  EXPECT_EQ((*files)[1].sha256, "");
}

TEST(HubTest, RefusesForeignForms) {
  for (const char* bad :
       {"", "<html>", "{}", "[1]", R"([{"type":"file"}])", R"([{"type":1,"path":"a"}])",
        R"([{"type":"file","path":"a.gguf"}])", R"([{"type":"file","path":"a.gguf","size":-1}])",
        R"([{"type":"file","path":"../a.gguf","size":1}])",
        R"([{"type":"file","path":"/a.gguf","size":1}])",
        R"([{"type":"file","path":"a\u0000.gguf","size":1}])"}) {
    EXPECT_FALSE(parse_listing(bad)) << bad;
  }
  EXPECT_FALSE(parse_listing(std::string(100000, '[')));
}

TEST(HubTest, DamagedListingsAreErrorsOrStaySafe) {
  const std::string good =
      R"([{"type":"file","path":"Q8/a-Q8_0-00001-of-00002.gguf","size":134,"lfs":{"oid":")" + kSha +
      R"(","size":9}},{"type":"file","path":"Q8/a-Q8_0-00002-of-00002.gguf","size":7}])";
  std::mt19937 random(1);
  int accepted = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text = good;
    const size_t changes = random() % 4;
    for (size_t i = 0; i < changes; ++i) text[random() % text.size()] = static_cast<char>(random());
    if (random() % 8 == 0) text.resize(random() % text.size());
    const auto files = parse_listing(text);
    if (!files) {
      EXPECT_FALSE(files.error().message.empty());
      continue;
    }
    ++accepted;
    for (const HubFile& file : *files) EXPECT_TRUE(is_safe_relative_path(file.path));
    const auto chosen = select_model(*files, "o/r", "Q8_0");
    EXPECT_TRUE(!chosen || chosen->size() <= files->size());
  }
  EXPECT_GT(accepted, 1000);
}

TEST(HubTest, NextPage) {
  EXPECT_EQ(next_page(R"(<https://h/a?cursor=b>; rel="next")"), "https://h/a?cursor=b");
  EXPECT_EQ(next_page(R"(<https://h/0>; rel="prev", <https://h/2>; rel="next")"), "https://h/2");
  for (const char* none : {"", "x", "<a", R"(<a>; rel="prev")"}) EXPECT_EQ(next_page(none), "");
}

}  // namespace
}  // namespace ondol::store
