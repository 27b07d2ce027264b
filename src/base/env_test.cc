#include "base/env.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

namespace ondol {
namespace {

class EnvTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        testing::TempDir() + "env_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(directory_);
    ASSERT_TRUE(env_.create_directories(directory_));
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  Env& env_ = Env::real();
  std::string directory_;
};

TEST_F(EnvTest, WritesAppendsMapsAndRemoves) {
  const std::string path = directory_ + "/a";
  for (const auto mode : {WriteMode::kTruncate, WriteMode::kAppend}) {
    auto file = env_.open_writable(path, mode);
    ASSERT_TRUE(file);
    ASSERT_TRUE((*file)->append(std::as_bytes(std::span("abc", 3))));
    ASSERT_TRUE((*file)->sync());
    ASSERT_TRUE((*file)->close());
  }
  EXPECT_EQ(env_.read_text(path, 100).value(), "abcabc");
  const auto mapped = env_.map(path);
  ASSERT_TRUE(mapped);
  EXPECT_EQ((*mapped)->bytes().size(), 6u);
  EXPECT_EQ(std::memcmp((*mapped)->bytes().data(), "abcabc", 6), 0);
  ASSERT_TRUE(env_.rename(path, directory_ + "/b"));
  EXPECT_EQ(env_.list(directory_).value(), std::vector<std::string>{"b"});
  EXPECT_EQ(env_.info(directory_ + "/b").value().size, 6u);
  ASSERT_TRUE(env_.remove(directory_ + "/b"));
  EXPECT_FALSE(env_.info(directory_ + "/b"));
}

TEST_F(EnvTest, ErrorsNameThePathAndTheReason) {
  const auto missing = env_.map(directory_ + "/none");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("/none'"), std::string::npos);
  EXPECT_NE(missing.error().message.find("No such file"), std::string::npos);
  EXPECT_FALSE(env_.map(directory_));  // a directory is no file
}

TEST_F(EnvTest, ReadTextStopsAtItsLimit) {
  auto file = env_.open_writable(directory_ + "/big", WriteMode::kTruncate);
  ASSERT_TRUE(file);
  const std::string text(1000, 'x');
  ASSERT_TRUE((*file)->append(std::as_bytes(std::span(text))));
  ASSERT_TRUE((*file)->close());
  EXPECT_TRUE(env_.read_text(directory_ + "/big", 1000));
  EXPECT_FALSE(env_.read_text(directory_ + "/big", 999));
}

TEST_F(EnvTest, EmptyFileMapsToNoBytes) {
  auto file = env_.open_writable(directory_ + "/empty", WriteMode::kTruncate);
  ASSERT_TRUE(file && (*file)->close());
  const auto mapped = env_.map(directory_ + "/empty");
  ASSERT_TRUE(mapped);
  EXPECT_TRUE((*mapped)->bytes().empty());
}

TEST_F(EnvTest, LinksAreSeenAndRemovedWithoutTheirTarget) {
  ASSERT_TRUE(env_.create_directories(directory_ + "/folder"));
  ASSERT_TRUE(env_.symlink("folder", directory_ + "/link"));
  const auto info = env_.info(directory_ + "/link");
  ASSERT_TRUE(info);
  EXPECT_TRUE(info->is_symlink);
  EXPECT_TRUE(info->is_directory);
  EXPECT_EQ(env_.read_link(directory_ + "/link").value(), "folder");
  ASSERT_TRUE(env_.remove(directory_ + "/link"));
  EXPECT_FALSE(env_.info(directory_ + "/folder").value().is_symlink);
  ASSERT_TRUE(env_.remove(directory_ + "/folder"));  // empty
}

TEST_F(EnvTest, OneHolderOfALockAtATime) {
  const std::string path = directory_ + "/lock";
  auto first = env_.try_lock(path);
  ASSERT_TRUE(first && *first);
  EXPECT_EQ(*env_.try_lock(path), nullptr);
  first->reset();
  EXPECT_FALSE(env_.info(path));
  auto second = env_.try_lock(path);
  ASSERT_TRUE(second);
  EXPECT_NE(*second, nullptr);
  EXPECT_FALSE(env_.try_lock(directory_ + "/none/lock"));
}

TEST_F(EnvTest, FreeSpaceIsPlausible) {
  EXPECT_LT(env_.free_space(directory_).value(), 1ull << 60);
  EXPECT_FALSE(env_.free_space(directory_ + "/none"));
}

TEST_F(EnvTest, AvailableMemoryIsPlausible) {
  EXPECT_GT(env_.available_memory(), 1u << 20);
  EXPECT_LT(env_.available_memory(), 1ull << 50);
}

}  // namespace
}  // namespace ondol
