#include "base/env.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <thread>

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
  (*mapped)->forget((*mapped)->bytes().subspan(2, 3));  // comes again when it is read
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
}

TEST_F(EnvTest, WhatIsNoFileIsRefusedWithAdvice) {
  const std::string fifo = directory_ + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  ASSERT_TRUE(env_.symlink("loop", directory_ + "/loop"));
  for (const std::string& path :
       {directory_, fifo, directory_ + "/loop", std::string("/dev/zero")}) {
    const auto mapped = env_.map(path);
    ASSERT_FALSE(mapped) << path;
    EXPECT_EQ(mapped.error().kind, ErrorKind::kRefused) << path;
    EXPECT_NE(mapped.error().message.find("; "), std::string::npos) << mapped.error().message;
  }
  EXPECT_EQ(env_.info(directory_ + "/loop").error().kind, ErrorKind::kRefused);
}

TEST_F(EnvTest, ReadTextTakesPipesAndRefusesDevicesAndFolders) {
  for (const std::string& path : {directory_, std::string("/dev/zero"), std::string("/dev/null")}) {
    const auto text = env_.read_text(path, 100);
    ASSERT_FALSE(text) << path;
    EXPECT_EQ(text.error().kind, ErrorKind::kRefused) << path;
    EXPECT_NE(text.error().message.find("; "), std::string::npos) << text.error().message;
  }
  const std::string fifo = directory_ + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  std::thread writer([&] {
    auto file = env_.open_writable(fifo, WriteMode::kAppend);
    ASSERT_TRUE(file && (*file)->append(std::as_bytes(std::span("hello", 5))));
  });
  EXPECT_EQ(env_.read_text(fifo, 100).value(), "hello");
  writer.join();
}

TEST_F(EnvTest, AFolderThatIsMissingIsNamed) {
  const auto file = env_.open_writable(directory_ + "/none/x", WriteMode::kTruncate);
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find("/none' does not exist; create it"), std::string::npos)
      << file.error().message;
}

TEST_F(EnvTest, ReadTextStopsAtItsLimit) {
  auto file = env_.open_writable(directory_ + "/big", WriteMode::kTruncate);
  ASSERT_TRUE(file);
  const std::string text(1000, 'x');
  ASSERT_TRUE((*file)->append(std::as_bytes(std::span(text))));
  ASSERT_TRUE((*file)->close());
  EXPECT_TRUE(env_.read_text(directory_ + "/big", 1000));
  const auto cut = env_.read_text(directory_ + "/big", 999);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().kind, ErrorKind::kRefused);
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
