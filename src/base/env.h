// Thread rule: an Env may be used from any thread; a file object from one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace ondol {

/// A whole file, mapped read-only for as long as the object lives.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  /// The content, valid as long as the object.
  virtual std::span<const std::byte> bytes() const = 0;
  /// The path it was opened by.
  virtual const std::string& path() const = 0;
  /// Gives back the memory of a part of bytes() that will hardly be read again; what is read is
  /// fetched anew.
  virtual void forget(std::span<const std::byte> part) const = 0;
};

/// A file being written from front to back.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  /// Writes all of `bytes` behind what is there.
  virtual Result<void> append(std::span<const std::byte> bytes) = 0;
  /// Makes everything appended so far survive a power cut.
  virtual Result<void> sync() = 0;
  /// Closes the file; after an error its content is undefined.
  virtual Result<void> close() = 0;
};

/// A lock between processes, held for as long as the object lives. It vanishes with its process.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

enum class WriteMode {
  kTruncate,
  kAppend,
  kAppendPrivate,  ///< and nobody but the owner may read or write the file
};

struct FileInfo {
  uint64_t size = 0;  ///< bytes
  bool is_directory = false;
  bool is_symlink =
      false;  ///< the path itself; size and is_directory are those of what it points to
};

/// The outside world: files, clocks, memory limits. Injected, so that tests can fail the n-th
/// write, cut a file short or stop the clock. Every error names the path and the system's reason.
class Env {
 public:
  virtual ~Env() = default;

  /// kRefused for what is no regular file (a folder, a pipe, a device, a link to itself).
  virtual Result<std::unique_ptr<MappedFile>> map(const std::string& path) = 0;
  /// Reads a file or a pipe whole; kRefused for a folder, a device and what is larger than `limit`
  /// bytes, kInterrupted when a signal ends the wait for input.
  virtual Result<std::string> read_text(const std::string& path, uint64_t limit) = 0;
  virtual Result<std::unique_ptr<WritableFile>> open_writable(const std::string& path,
                                                              WriteMode mode) = 0;
  /// kRefused where something is there but cannot be looked at (a link to itself, permissions).
  virtual Result<FileInfo> info(const std::string& path) = 0;
  virtual Result<std::vector<std::string>> list(
      const std::string& directory) = 0;  ///< names, sorted
  /// Makes a folder and those above it; one that is there is fine.
  virtual Result<void> create_directories(const std::string& path) = 0;
  /// Takes the place of `to` in one step, if both are on the same file system.
  virtual Result<void> rename(const std::string& from, const std::string& to) = 0;
  /// A file, a link (never what it points to) or an empty folder.
  virtual Result<void> remove(const std::string& path) = 0;
  /// Makes `path` a link to `target`, which need not exist.
  virtual Result<void> symlink(const std::string& target, const std::string& path) = 0;
  /// Where a link points to, as it is written there.
  virtual Result<std::string> read_link(const std::string& path) = 0;
  /// Takes the lock named by `path`, a file that is made for it and removed again; null if someone
  /// else holds it.
  virtual Result<std::unique_ptr<FileLock>> try_lock(const std::string& path) = 0;
  /// Bytes that an ordinary user may still write to the file system that holds `directory`.
  virtual Result<uint64_t> free_space(const std::string& directory) = 0;

  /// For durations: never goes back.
  virtual std::chrono::steady_clock::time_point now() = 0;
  /// The time of day, for people.
  virtual std::chrono::system_clock::time_point wall_clock() = 0;

  /// Bytes that this process may still take without swapping or being killed: the smaller of free
  /// system memory and what its cgroup and RLIMIT_AS leave.
  virtual uint64_t available_memory() = 0;

  /// The real machine.
  static Env& real();
};

}  // namespace ondol
