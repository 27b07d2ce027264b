#include "gguf/verify.h"

#include "gguf/test_files.h"
#include "gguf/text.h"

namespace ondol::gguf::test {
namespace {

using testing::HasSubstr;

// FIPS 180-4 examples: no bytes, and "abc".
constexpr const char* kSumOfNothing =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr const char* kSumOfAbc =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

class VerifyTest : public FolderTest {};

TEST_F(VerifyTest, SumsBrokenFilesToo) {
  write("abc", "abc");
  write("empty", "");
  const auto abc = verify(env_, in_folder("abc")).value();
  ASSERT_EQ(abc.parts.size(), 1u);
  EXPECT_EQ(abc.parts[0].sha256, kSumOfAbc);
  EXPECT_EQ(abc.parts[0].bytes, 3u);
  ASSERT_TRUE(abc.structure);
  EXPECT_EQ(abc.verdict().error().kind, ErrorKind::kRefused);
  EXPECT_THAT(to_text(abc), HasSubstr("structure: broken"));
  EXPECT_EQ(verify(env_, in_folder("empty")).value().parts[0].sha256, kSumOfNothing);
}

TEST_F(VerifyTest, ComparesWithTheExpectedSum) {
  ASSERT_TRUE(small_writer().write(env_, in_folder("a.gguf")));
  const auto plain = verify(env_, in_folder("a.gguf")).value();
  EXPECT_TRUE(plain.verdict());
  EXPECT_EQ(plain.n_tensors, 3u);
  EXPECT_FALSE(plain.parts[0].matches.has_value());

  std::string upper = plain.parts[0].sha256;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  EXPECT_EQ(verify(env_, in_folder("a.gguf"), {{upper}, {}}).value().parts[0].matches, true);

  const auto other = verify(env_, in_folder("a.gguf"), {{kSumOfAbc}, {}}).value();
  EXPECT_EQ(other.parts[0].matches, false);
  EXPECT_THAT(other.verdict().error().message, HasSubstr("not the expected one"));
  const auto json = boost::json::parse(to_json(other)).as_object();
  EXPECT_FALSE(json.at("ok").as_bool());
  EXPECT_TRUE(json.at("structure").as_object().at("ok").as_bool());
}

TEST_F(VerifyTest, ExpectedSumsAreChecked) {
  ASSERT_TRUE(small_writer().write(env_, in_folder("a.gguf")));
  const std::vector<std::vector<std::string>> lists = {
      {"abc"}, {std::string(64, 'g')}, {kSumOfAbc, kSumOfAbc}, {std::string(kSumOfAbc) + " "}};
  for (const auto& list : lists) {
    const auto result = verify(env_, in_folder("a.gguf"), {list, {}});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, ErrorKind::kUsage);
  }
  EXPECT_EQ(verify(env_, in_folder("none.gguf")).error().kind, ErrorKind::kFailed);
}

TEST_F(VerifyTest, EveryPartOfASplitFile) {
  const std::string data(16, '\0');
  for (const uint16_t no : {uint16_t{0}, uint16_t{1}}) {
    Writer w;
    w.set("split.no", no)
        .set("split.count", uint16_t{2})
        .add_tensor(numbered("t", no), kF32, {4}, as_bytes(data));
    ASSERT_TRUE(w.write(env_, in_folder(numbered("m-0000", no + 1u, "-of-00002.gguf"))));
  }
  const auto both = verify(env_, in_folder("m-00002-of-00002.gguf")).value();
  ASSERT_EQ(both.parts.size(), 2u);
  EXPECT_THAT(both.parts[0].path, HasSubstr("m-00001"));
  EXPECT_NE(both.parts[0].sha256, both.parts[1].sha256);
  EXPECT_EQ(both.n_tensors, 2u);
  const VerifyOptions swapped{{both.parts[1].sha256, both.parts[0].sha256}, {}};
  EXPECT_FALSE(verify(env_, in_folder("m-00001-of-00002.gguf"), swapped).value().verdict());
}

TEST_F(VerifyTest, ProgressIsToldAndMayStop) {
  write("big", std::string((5 << 20) / 2, 'x'));
  std::vector<uint64_t> seen;
  VerifyOptions options;
  options.progress = [&](uint64_t done, uint64_t total) {
    EXPECT_EQ(total, uint64_t{5 << 20} / 2);
    seen.push_back(done);
    return true;
  };
  ASSERT_TRUE(verify(env_, in_folder("big"), options));
  EXPECT_EQ(seen, (std::vector<uint64_t>{1 << 20, 2 << 20, (5 << 20) / 2}));
  options.progress = [](uint64_t, uint64_t) { return false; };
  EXPECT_EQ(verify(env_, in_folder("big"), options).error().kind, ErrorKind::kInterrupted);
}

TEST_F(VerifyTest, OddPathsStayValidJson) {
  const std::string name = "odd\xFFname\n.gguf";
  write(name, "abc");
  const auto result = verify(env_, in_folder(name)).value();
  EXPECT_TRUE(is_utf8(to_json(result)));
  EXPECT_TRUE(boost::json::parse(to_json(result)).is_object());
  EXPECT_THAT(to_text(result), HasSubstr("odd\\xffname\\x0a.gguf"));
}

}  // namespace
}  // namespace ondol::gguf::test
