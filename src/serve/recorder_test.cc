#include "serve/recorder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/json.hpp>
#include <cstdio>
#include <fstream>

#include "base/env_forward.h"
#include "support/support.h"

namespace ondol::serve {
namespace {

/// A disk that is full after so many writes.
class FullEnv final : public EnvForward {
 public:
  explicit FullEnv(int writes) : EnvForward(Env::real()), left_(writes) {}
  Result<std::unique_ptr<WritableFile>> open_writable(const std::string& path,
                                                      WriteMode mode) override {
    auto file = EnvForward::open_writable(path, mode);
    if (!file) return file;
    return std::make_unique<File>(std::move(*file), left_);
  }

 private:
  class File final : public WritableFile {
   public:
    File(std::unique_ptr<WritableFile> file, int& left) : file_(std::move(file)), left_(left) {}
    Result<void> append(std::span<const std::byte> bytes) override {
      if (left_-- <= 0) return failed("the disk is full");
      return file_->append(bytes);
    }
    Result<void> sync() override { return file_->sync(); }
    Result<void> close() override { return file_->close(); }

   private:
    std::unique_ptr<WritableFile> file_;
    int& left_;
  };
  int left_;
};

class RecorderTest : public ::testing::Test {
 protected:
  ~RecorderTest() override { std::remove(path_.c_str()); }
  std::unique_ptr<Recorder> open(Env& env = Env::real()) {
    auto recorder = Recorder::open(env, path_);
    EXPECT_TRUE(recorder) << recorder.error().message;
    return std::move(*recorder);
  }
  RecordedRequest request(std::string body) {
    return {.arrived = Env::real().now(),
            .key = "al\"ice",
            .path = "/v1/completions",
            .body = std::move(body),
            .status = 200,
            .figures = {9, 8, 3, 0.25}};
  }
  const std::string path_ = ::testing::TempDir() + "record_" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(RecorderTest, OneLineEachAppendedForTheOwnerAlone) {
  std::ofstream(path_) << "{\"t\":0}";  // without its line break
  chmod(path_.c_str(), 0644);
  open()->add(request("{\"prompt\": \"a\",\r\n \"n\": 1}"));
  open()->add(request("{broken\n\xFF"));
  const auto lines = test::read_json_lines(path_);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1].at("body"), boost::json::parse("{\"prompt\":\"a\",\"n\":1}"));
  EXPECT_EQ(lines[1].at("key"), "al\"ice");
  EXPECT_EQ(lines[1].at("status"), 200);
  EXPECT_EQ(lines[1].at("prompt_tokens"), 9);
  EXPECT_EQ(lines[1].at("cached_tokens"), 8);
  EXPECT_EQ(lines[1].at("completion_tokens"), 3);
  EXPECT_EQ(lines[1].at("ttft_ms"), 250.0);
  EXPECT_GE(lines[1].at("t").to_number<double>(), 0);
  EXPECT_EQ(lines[2].at("body"), "{broken\n\uFFFD");
  struct stat status{};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(RecorderTest, AFullDiskEndsTheRecordingOnly) {
  FullEnv env(2);
  {
    const auto recorder = open(env);
    for (int i = 0; i < 5; ++i) recorder->add(request("{}"));
  }
  EXPECT_EQ(test::read_json_lines(path_).size(), 2u);
}

TEST_F(RecorderTest, AFolderThatIsNotThere) {
  EXPECT_FALSE(Recorder::open(Env::real(), "/nowhere/at/all"));
}

TEST(RecordLine, TextsCannotBreakTheLine) {
  const std::string line = record_line({.key = "a\nb", .path = "/x", .body = "\n"}, 1);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(boost::json::parse(line).at("key"), "a\nb");
}

}  // namespace
}  // namespace ondol::serve
