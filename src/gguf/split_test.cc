#include "gguf/test_files.h"

namespace ondol::gguf::test {
namespace {

using testing::HasSubstr;

class SplitTest : public FolderTest {
 protected:
  /// One part: `n_tensors` tensors whose names begin with `first`.
  static std::string part(uint16_t no, uint16_t count, int32_t total, size_t n_tensors,
                          size_t first) {
    static const std::string data(16, '\0');
    Writer w;
    if (no == 0) w.set("general.architecture", "toy");
    w.set("split.no", no).set("split.count", count).set("split.tensors.count", total);
    for (size_t i = 0; i < n_tensors; ++i)
      w.add_tensor(numbered("t", first + i), kF32, {4}, as_bytes(data));
    return w.to_bytes().value();
  }
  /// Three sound parts of three tensors.
  void write_three() {
    for (uint16_t no = 0; no < 3; ++no) {
      write(numbered("m-0000", no + 1u, "-of-00003.gguf"), part(no, 3, 9, 3, no * 3u));
    }
  }
  std::string message(std::string_view name) {
    const auto file = File::open(env_, in_folder(name));
    EXPECT_FALSE(file);
    if (file) return "";
    EXPECT_EQ(file.error().kind, ErrorKind::kRefused);
    return file.error().message;
  }
  void run_case(const boost::json::object& item);
};

TEST_F(SplitTest, AnyPartOpensTheWhole) {
  write_three();
  for (const auto* name :
       {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}) {
    const auto file = File::open(env_, in_folder(name));
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->path(), in_folder(name));
    ASSERT_EQ(file->part_paths().size(), 3u);
    EXPECT_EQ(file->part_paths()[0], in_folder("m-00001-of-00003.gguf"));
    EXPECT_EQ(file->get_string("general.architecture").value(), "toy");
    ASSERT_EQ(file->tensors().size(), 9u);
    for (size_t i = 0; i < 9; ++i) EXPECT_EQ(file->tensors()[i].name, numbered("t", i));
    EXPECT_EQ(file->tensor("t8")->data.size(), 16u);
  }
}

TEST_F(SplitTest, EveryPartMayBeBrokenAndIsNamed) {
  write_three();
  const std::string second = part(1, 3, 9, 3, 3);
  for (const size_t size : {size_t{0}, size_t{4}, second.size() / 2, second.size() - 17}) {
    write("m-00002-of-00003.gguf", second.substr(0, size));
    EXPECT_THAT(message("m-00001-of-00003.gguf"), HasSubstr("m-00002-of-00003.gguf")) << size;
  }
}

TEST_F(SplitTest, OnePartOfOneNeedsNoName) {
  write("model.gguf", part(0, 1, 3, 3, 0));
  EXPECT_TRUE(File::open(env_, in_folder("model.gguf")));
  write("model.gguf", part(1, 1, 3, 3, 0));
  EXPECT_THAT(message("model.gguf"), HasSubstr("split.no"));
  write("model.gguf", part(0, 1, 4, 3, 0));
  EXPECT_THAT(message("model.gguf"), HasSubstr("announces 4 tensors"));
}

TEST_F(SplitTest, HostileCountsCostNothing) {
  write("m-00001-of-00003.gguf", Writer().set("split.count", ~uint64_t{0}).to_bytes().value());
  EXPECT_THAT(message("m-00001-of-00003.gguf"), HasSubstr("split.count"));
  write("m-00001-of-99999.gguf", part(0, 65535, 0, 0, 0));
  EXPECT_THAT(message("m-00001-of-99999.gguf"), HasSubstr("-of-65535.gguf"));
  write("m-00001-of-65535.gguf", part(0, 65535, 0, 0, 0));
  EXPECT_THAT(message("m-00001-of-65535.gguf"), HasSubstr("m-00002-of-65535.gguf"));
  write("m-00001-of-00003.gguf", Writer().set("split.count", "3").to_bytes().value());
  EXPECT_THAT(message("m-00001-of-00003.gguf"), HasSubstr("key 'split.count'"));
}

TEST_F(SplitTest, MissingFileIsNoRefusal) {
  const auto file = File::open(env_, in_folder("none.gguf"));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, ErrorKind::kFailed);
  EXPECT_THAT(file.error().message, HasSubstr("none.gguf"));
}

void SplitTest::run_case(const boost::json::object& item) {
  const auto& input = item.at("input").as_object();
  const auto& expected = item.at("expected").as_object();
  size_t first = 0;
  for (const auto& [name, content] : input.at("files").as_object()) {
    if (content.is_object()) {
      const auto& keys = content.as_object();
      const auto number = [&](std::string_view key) { return keys.at(key).to_number<int32_t>(); };
      const auto n = static_cast<size_t>(number("tensors_in_file"));
      write(name, part(static_cast<uint16_t>(number("split.no")),
                       static_cast<uint16_t>(number("split.count")), number("split.tensors.count"),
                       n, first));
      first += n;
    } else if (content.as_string() == "a copy of part one with split.no set to 1") {
      write(name, part(1, 3, 9, 3, 0));
    } else {
      ASSERT_EQ(content.as_string(), "the bytes of the three parts, one after another");
      write(name, part(0, 3, 9, 3, 0) + part(1, 3, 9, 3, 3) + part(2, 3, 9, 3, 6));
    }
  }
  std::vector<std::string> opened = {std::string(std::string_view(input.at("open").as_string()))};
  if (opened[0] == "a directory listing in any order") {
    opened = env_.list(folder_).value();
    std::ranges::reverse(opened);
  }
  for (const std::string& name : opened) {
    const auto file = File::open(env_, in_folder(name));
    if (expected.at("result").as_string() == "accept") {
      ASSERT_TRUE(file) << file.error().message;
      EXPECT_EQ(file->tensors().size(), expected.at("n_tensors").to_number<size_t>());
      for (size_t i = 0; i < file->tensors().size(); ++i)
        EXPECT_EQ(file->tensors()[i].name, numbered("t", i));
    } else if (expected.at("result").as_string() == "reject") {
      ASSERT_FALSE(file);
      EXPECT_EQ(file.error().kind, ErrorKind::kRefused);
    }
    if (const auto* text = expected.if_contains("message_should_mention");
        text != nullptr && !file) {
      EXPECT_THAT(file.error().message,
                  HasSubstr(std::string(std::string_view(text->as_string()))));
    }
  }
}

TEST_F(SplitTest, ReferenceCases) {
  const std::string path = ondol::test::shared_path("cases/gguf_splits.jsonl");
  if (path.empty()) GTEST_SKIP() << ondol::test::kNoShared;
  const auto cases = ondol::test::read_json_lines(path);
  ASSERT_FALSE(cases.empty());
  for (const auto& item : cases) {
    SCOPED_TRACE(std::string_view(item.at("id").as_string()));
    SetUp();
    run_case(item);
  }
}

}  // namespace
}  // namespace ondol::gguf::test
