// Thread rule: as the Env that it forwards to.
#pragma once

#include "base/env.h"

namespace ondol {

/// An Env that passes everything on to another one: a test overrides what it wants to fail.
class EnvForward : public Env {
 public:
  explicit EnvForward(Env& real) : real_(real) {}

  Result<std::unique_ptr<MappedFile>> map(const std::string& path) override {
    return real_.map(path);
  }
  Result<std::string> read_text(const std::string& path, uint64_t limit) override {
    return real_.read_text(path, limit);
  }
  Result<std::unique_ptr<WritableFile>> open_writable(const std::string& path,
                                                      WriteMode mode) override {
    return real_.open_writable(path, mode);
  }
  Result<FileInfo> info(const std::string& path) override { return real_.info(path); }
  Result<std::vector<std::string>> list(const std::string& directory) override {
    return real_.list(directory);
  }
  Result<void> create_directories(const std::string& path) override {
    return real_.create_directories(path);
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    return real_.rename(from, to);
  }
  Result<void> remove(const std::string& path) override { return real_.remove(path); }
  Result<void> symlink(const std::string& target, const std::string& path) override {
    return real_.symlink(target, path);
  }
  Result<std::string> read_link(const std::string& path) override { return real_.read_link(path); }
  Result<std::unique_ptr<FileLock>> try_lock(const std::string& path) override {
    return real_.try_lock(path);
  }
  Result<uint64_t> free_space(const std::string& directory) override {
    return real_.free_space(directory);
  }
  std::chrono::steady_clock::time_point now() override { return real_.now(); }
  std::chrono::system_clock::time_point wall_clock() override { return real_.wall_clock(); }
  uint64_t available_memory() override { return real_.available_memory(); }

 private:
  Env& real_;
};

}  // namespace ondol
