#include <chrono>
#include <cmath>

#include "gguf/gguf.h"
#include "gguf/test_files.h"

namespace ondol::gguf::test {
namespace {

using testing::Test;

class FileTest : public Test {
 protected:
  void SetUp() override {
    bytes_ = small_writer().set("f.whole", 4096.0f).set("f.nan", std::nanf("")).to_bytes().value();
    auto file = File::parse(as_bytes(bytes_), "small.gguf");
    ASSERT_TRUE(file) << file.error().message;
    file_.emplace(std::move(*file));
  }
  const Array& array(std::string_view key) { return std::get<Array>(file_->find(key)->data); }

  std::string bytes_;
  std::optional<File> file_;
};

TEST_F(FileTest, ReadsEveryType) {
  const File& f = *file_;
  EXPECT_EQ(f.version(), 3u);
  EXPECT_EQ(f.size_bytes(), bytes_.size());
  EXPECT_EQ(f.get_uint("v.u8").value(), 200u);
  EXPECT_EQ(f.get_uint("v.u16").value(), 60000u);
  EXPECT_EQ(f.get_uint("v.u32").value(), 4000000000u);
  EXPECT_EQ(f.get_uint("v.u64").value(), ~uint64_t{0});
  EXPECT_EQ(std::get<int64_t>(f.find("v.i8")->data), -100);
  EXPECT_EQ(std::get<int64_t>(f.find("v.i16")->data), -30000);
  EXPECT_EQ(std::get<int64_t>(f.find("v.i32")->data), -2000000000);
  EXPECT_EQ(std::get<int64_t>(f.find("v.i64")->data), INT64_MIN);
  EXPECT_EQ(f.get_float("v.f32").value(), static_cast<double>(0.1f));
  EXPECT_EQ(f.get_float("v.f64").value(), 0.1);
  EXPECT_TRUE(f.get_bool("v.yes", false).value());
  EXPECT_FALSE(f.get_bool("v.no", true).value());
  EXPECT_EQ(f.get_string("v.text").value(), std::string_view("a\0b\xFF", 4));
  EXPECT_EQ(f.get_string("v.empty").value(), "");
  EXPECT_TRUE(std::isnan(f.get_float("f.nan").value()));
}

TEST_F(FileTest, ReadsArraysOfEveryKind) {
  EXPECT_EQ(array("a.i32").at_int(0), -1);
  EXPECT_EQ(array("a.i32").at_int(2), 7);
  EXPECT_EQ(array("a.i32").at_float(0), -1.0);
  EXPECT_EQ(array("a.u8").at_uint(1), 255u);
  EXPECT_EQ(array("a.i64").at_int(0), INT64_MIN);
  EXPECT_EQ(array("a.i64").at_uint(1), uint64_t{INT64_MAX});
  EXPECT_EQ(array("a.f32").at_float(1), -2.0);
  EXPECT_EQ(array("a.f64").at_float(0), 1e300);
  EXPECT_EQ(array("a.bool").at_uint(0), 1u);
  EXPECT_EQ(array("a.bool").at_uint(1), 0u);
  EXPECT_EQ(array("a.none").size(), 0u);
  ASSERT_EQ(array("a.str").size(), 4u);
  EXPECT_EQ(array("a.str").at_string(0), "x");
  EXPECT_EQ(array("a.str").at_string(1), "");
  EXPECT_EQ(array("a.str").at_string(2), "\xED\x95\x9C");
  EXPECT_EQ(array("a.str").at_string(3), std::string_view("\0\xFE", 2));
  const Array& rows = array("a.rows");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows.at_array(0).at_uint(2), 3u);
  EXPECT_EQ(rows.at_array(1).size(), 0u);
  EXPECT_EQ(rows.at_array(2).at_uint(0), 4u);
}

TEST_F(FileTest, FindsTensors) {
  const Tensor* b = file_->tensor("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->n_dims, 3u);
  EXPECT_EQ(b->n_values(), 64u);
  EXPECT_EQ(b->data.size(), 36u);
  EXPECT_EQ((b->data.data() - as_bytes(bytes_).data()) % 32, 0);
  EXPECT_EQ(file_->tensor("d"), nullptr);
  EXPECT_EQ(file_->tensor(""), nullptr);
}

TEST_F(FileTest, ConvertsOnlyWhereNothingIsLost) {
  const File& f = *file_;
  EXPECT_EQ(f.get_uint("f.whole").value(), 4096u);
  EXPECT_EQ(f.get_float("v.i16").value(), -30000.0);
  for (const auto* key : {"v.i8", "v.f32", "v.yes", "v.text", "a.i32", "f.nan"}) {
    EXPECT_FALSE(f.get_uint(key)) << key;
    EXPECT_FALSE(f.get_uint(key, 1)) << key;
  }
  for (const auto* key : {"v.u64", "v.i64", "v.yes", "v.text"})
    EXPECT_FALSE(f.get_float(key, 1)) << key;
  EXPECT_FALSE(f.get_bool("v.u8", true));
  EXPECT_FALSE(f.get_string("v.u8"));
  EXPECT_FALSE(f.get_string("a.str", ""));
}

TEST_F(FileTest, ErrorsNameTheKeyItsTypeAndTheNeed) {
  const auto wrong = file_->get_uint("v.i8");
  EXPECT_EQ(wrong.error().kind, ErrorKind::kRefused);
  EXPECT_EQ(wrong.error().message,
            "'small.gguf' was refused, key 'v.i8': its value is -100 (type i8) where a whole "
            "number of 0 or more is "
            "needed");
  EXPECT_EQ(file_->get_string("no.such").error().message,
            "'small.gguf' was refused: the key 'no.such' is missing");
  EXPECT_EQ(file_->get_uint("no.such").error().kind, ErrorKind::kRefused);
}

TEST_F(FileTest, FallbacksServeAbsentKeysOnly) {
  EXPECT_EQ(file_->get_uint("none", 7).value(), 7u);
  EXPECT_EQ(file_->get_float("none", 0.5).value(), 0.5);
  EXPECT_TRUE(file_->get_bool("none", true).value());
  EXPECT_EQ(file_->get_string("none", "x").value(), "x");
}

TEST_F(FileTest, ArraysAnswerForTheirKind) {
  EXPECT_EQ(file_->get_array("none", ValueType::kString).value(), nullptr);
  EXPECT_NE(file_->get_array("a.i32", ValueType::kU32).value(), nullptr);
  EXPECT_NE(file_->get_array("a.i32", ValueType::kF32).value(), nullptr);
  EXPECT_NE(file_->get_array("a.f64", ValueType::kF32).value(), nullptr);
  EXPECT_NE(file_->get_array("a.str", ValueType::kString).value(), nullptr);
  EXPECT_FALSE(file_->get_array("a.f32", ValueType::kI32));
  EXPECT_FALSE(file_->get_array("a.bool", ValueType::kI32));
  EXPECT_FALSE(file_->get_array("a.str", ValueType::kI32));
  EXPECT_FALSE(file_->get_array("v.u8", ValueType::kU8));
}

TEST(FileSpeed, LargeVocabularyOpensAtOnce) {
  std::vector<std::string> tokens(262144);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = numbered("token", i);
  const std::string bytes = Writer().set_strings("tokens", tokens).to_bytes().value();
  const auto start = std::chrono::steady_clock::now();
  const auto file = File::parse(as_bytes(bytes), "large.gguf");
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(file);
  EXPECT_EQ(std::get<Array>(file->find("tokens")->data).at_string(262143), "token262143");
  RecordProperty("milliseconds", std::to_string(took.count()));
  EXPECT_LT(took.count(), 250.0);  // a few in a plain build; room for sanitizers and a busy machine
}

}  // namespace
}  // namespace ondol::gguf::test
