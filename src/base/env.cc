#include "base/env.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <system_error>

#include "base/units.h"

namespace ondol {
namespace {

/// What the user can do about a reason of the system; empty where the reason says it all.
std::string_view advice(int code) {
  switch (code) {
    case ENOENT:
      return "; check the path";
    case EACCES:
    case EPERM:
      return "; check its permissions";
    case EISDIR:
      return "; name a file in it";
    case ENOTDIR:
      return "; a part of the path is a file";
    case ENOSPC:
    case EDQUOT:
      return "; free some space or choose another place";
    case EFBIG:
      return "; raise the limit of file sizes (ulimit -f)";
    case EROFS:
      return "; choose another place";
    case EMFILE:
    case ENFILE:
      return "; raise the limit of open files (ulimit -n)";
    default:
      return "";
  }
}

std::unexpected<Error> system_error(std::string_view action, const std::string& path, int code) {
  return failed(fmt::format("cannot {} '{}': {}{}", action, path,
                            std::generic_category().message(code), advice(code)));
}

std::unexpected<Error> link_loop(const std::string& path) {
  return refused(
      fmt::format("'{}' is a symbolic link that leads back to itself; name the file itself", path));
}

/// Refuses what holds no bytes of its own, before it is opened: opening a FIFO would wait for its
/// other end.
Result<void> check_regular(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    return errno == ELOOP ? link_loop(path) : system_error("open", path, errno);
  }
  if (S_ISREG(status.st_mode)) return {};
  if (S_ISDIR(status.st_mode))
    return refused(fmt::format("'{}' is a folder; name the file in it", path));
  return refused(fmt::format("'{}' is a {}, not a regular file; copy its content to a file first",
                             path, S_ISFIFO(status.st_mode) ? "pipe" : "device or socket"));
}

/// Refuses what cannot be read to an end. A pipe can: it is how a shell gives the output of a
/// command as a file.
Result<void> check_readable(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    return errno == ELOOP ? link_loop(path) : system_error("open", path, errno);
  }
  if (S_ISREG(status.st_mode) || S_ISFIFO(status.st_mode)) return {};
  if (S_ISDIR(status.st_mode))
    return refused(fmt::format("'{}' is a folder; name the file in it", path));
  return refused(
      fmt::format("'{}' is a device or socket; give a regular file or a pipe instead", path));
}

class RealMappedFile final : public MappedFile {
 public:
  RealMappedFile(std::string path, void* address, size_t size)
      : path_(std::move(path)), address_(address), size_(size) {}
  ~RealMappedFile() override {
    if (address_ != nullptr) munmap(address_, size_);
  }
  RealMappedFile(const RealMappedFile&) = delete;
  RealMappedFile& operator=(const RealMappedFile&) = delete;

  std::span<const std::byte> bytes() const override {
    return {static_cast<const std::byte*>(address_), size_};
  }
  const std::string& path() const override { return path_; }
  void forget(std::span<const std::byte> part) const override {
    // Whole pages; neighbours that lose a piece fetch it again.
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const size_t before = reinterpret_cast<uintptr_t>(part.data()) % page;
    madvise(const_cast<std::byte*>(part.data()) - before, before + part.size(), MADV_DONTNEED);
  }

 private:
  std::string path_;
  void* address_;
  size_t size_;
};

class RealWritableFile final : public WritableFile {
 public:
  RealWritableFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~RealWritableFile() override {
    if (fd_ >= 0) ::close(fd_);
  }
  RealWritableFile(const RealWritableFile&) = delete;
  RealWritableFile& operator=(const RealWritableFile&) = delete;

  Result<void> append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return system_error("write", path_, errno);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }
  Result<void> sync() override {
    if (::fdatasync(fd_) != 0) return system_error("flush", path_, errno);
    return {};
  }
  Result<void> close() override {
    const int fd = std::exchange(fd_, -1);
    if (fd >= 0 && ::close(fd) != 0) return system_error("close", path_, errno);
    return {};
  }

 private:
  std::string path_;
  int fd_;
};

class RealFileLock final : public FileLock {
 public:
  RealFileLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~RealFileLock() override {
    // Removed while it is still held: whoever opened it meanwhile sees that the name is gone and
    // starts afresh.
    ::unlink(path_.c_str());
    ::close(fd_);
  }
  RealFileLock(const RealFileLock&) = delete;
  RealFileLock& operator=(const RealFileLock&) = delete;

 private:
  std::string path_;
  int fd_;
};

/// The number behind `key` in a file of "key value" lines (/proc/meminfo), or the only number of a
/// cgroup file.
std::optional<uint64_t> read_number(const char* path, std::string_view key) {
  std::ifstream in(path);
  std::string word;
  while (in >> word) {
    if (!key.empty() && word != key) continue;
    uint64_t value = 0;
    if (!key.empty() && !(in >> word)) return std::nullopt;
    const char* end = word.data() + word.size();
    if (std::from_chars(word.data(), end, value).ec != std::errc{}) return std::nullopt;
    return value;
  }
  return std::nullopt;
}

/// What the cgroup (version 2) that this process sees as its own still allows.
uint64_t cgroup_memory_left() {
  const auto limit = read_number("/sys/fs/cgroup/memory.max", "");
  const auto used = read_number("/sys/fs/cgroup/memory.current", "");
  if (!limit || !used) return std::numeric_limits<uint64_t>::max();
  // Page cache of files counts as used but is given back on demand.
  const uint64_t cache = read_number("/sys/fs/cgroup/memory.stat", "file").value_or(0);
  const uint64_t held = *used > cache ? *used - cache : 0;
  return *limit > held ? *limit - held : 0;
}

uint64_t address_space_left() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<uint64_t>::max();
  }
  const uint64_t pages = read_number("/proc/self/statm", "").value_or(0);
  const uint64_t used = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

class RealEnv final : public Env {
 public:
  Result<std::unique_ptr<MappedFile>> map(const std::string& path) override {
    if (auto regular = check_regular(path); !regular) return propagate(std::move(regular));
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return system_error("open", path, errno);
    struct stat status{};
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(fd);
      return refused(fmt::format("'{}' is no longer a regular file; try again", path));
    }
    const auto size = static_cast<size_t>(status.st_size);
    void* address = nullptr;
    if (size > 0) {
      address = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
      if (address == MAP_FAILED) {
        const int code = errno;
        ::close(fd);
        if (code == ENOMEM) {
          return no_memory(
              fmt::format("'{}' would not fit in memory: it needs {}, {} are available; choose a "
                          "smaller model or raise the limit",
                          path, format_size(size), format_size(available_memory())));
        }
        return system_error("map", path, code);
      }
    }
    ::close(fd);
    return std::make_unique<RealMappedFile>(path, address, size);
  }

  Result<std::string> read_text(const std::string& path, uint64_t limit) override {
    if (auto readable = check_readable(path); !readable) return propagate(std::move(readable));
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == EINTR) return fail(ErrorKind::kInterrupted, "interrupted");
    if (fd < 0) return system_error("open", path, errno);
    std::string text;
    char buffer[1 << 16];
    ssize_t n = 0;
    while ((n = ::read(fd, buffer, sizeof buffer)) > 0) {
      text.append(buffer, static_cast<size_t>(n));
      if (text.size() > limit) break;
    }
    const int code = errno;
    ::close(fd);
    if (n < 0 && code == EINTR) return fail(ErrorKind::kInterrupted, "interrupted");
    if (n < 0) return system_error("read", path, code);
    if (text.size() > limit) {
      return refused(
          fmt::format("'{}' is larger than {}, the most that is read here; give a part of it", path,
                      format_size(limit)));
    }
    return text;
  }

  Result<std::unique_ptr<WritableFile>> open_writable(const std::string& path,
                                                      WriteMode mode) override {
    const bool is_private = mode == WriteMode::kAppendPrivate;
    const int how = mode == WriteMode::kTruncate ? O_TRUNC : O_APPEND;
    int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, is_private ? 0600 : 0644);
    int code = errno;
    if (fd >= 0 && is_private && ::fchmod(fd, 0600) != 0) {
      code = errno;
      ::close(fd);
      fd = -1;
    }
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    std::error_code unknown;
    if (fd < 0 && code == ENOENT && !folder.empty() && !std::filesystem::exists(folder, unknown)) {
      return failed(
          fmt::format("cannot write '{}': the folder '{}' does not exist; create it first", path,
                      folder.string()));
    }
    if (fd < 0) return system_error("write", path, code);
    return std::make_unique<RealWritableFile>(path, fd);
  }

  Result<FileInfo> info(const std::string& path) override {
    struct stat status{}, own{};
    if (::stat(path.c_str(), &status) != 0 || ::lstat(path.c_str(), &own) != 0) {
      const int code = errno;
      if (code == ELOOP) return link_loop(path);
      auto error = system_error("read", path, code);
      if (code == EACCES) error.error().kind = ErrorKind::kRefused;
      return error;
    }
    return FileInfo{static_cast<uint64_t>(status.st_size), S_ISDIR(status.st_mode),
                    S_ISLNK(own.st_mode)};
  }

  Result<std::vector<std::string>> list(const std::string& directory) override {
    std::error_code code;
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator it(directory, code), end; !code && it != end;
         it.increment(code)) {
      names.push_back(it->path().filename().string());
    }
    if (code) return system_error("list", directory, code.value());
    std::ranges::sort(names);
    return names;
  }

  Result<void> create_directories(const std::string& path) override {
    std::error_code code;
    std::filesystem::create_directories(path, code);
    if (code) return system_error("create the folder", path, code.value());
    return {};
  }

  Result<void> rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return system_error("rename", from, errno);
    return {};
  }

  Result<void> remove(const std::string& path) override {
    if (::remove(path.c_str()) != 0) return system_error("remove", path, errno);
    return {};
  }

  Result<void> symlink(const std::string& target, const std::string& path) override {
    if (::symlink(target.c_str(), path.c_str()) != 0) return system_error("link", path, errno);
    return {};
  }

  Result<std::string> read_link(const std::string& path) override {
    std::error_code code;
    std::string target = std::filesystem::read_symlink(path, code).string();
    if (code) return system_error("read the link", path, code.value());
    return target;
  }

  Result<std::unique_ptr<FileLock>> try_lock(const std::string& path) override {
    while (true) {
      const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
      if (fd < 0) return system_error("lock", path, errno);
      if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
        const int code = errno;
        ::close(fd);
        if (code == EWOULDBLOCK) return std::unique_ptr<FileLock>();
        return system_error("lock", path, code);
      }
      struct stat held{}, named{};
      const bool same = ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
                        held.st_ino == named.st_ino && held.st_dev == named.st_dev;
      if (same) return std::make_unique<RealFileLock>(path, fd);
      ::close(fd);  // its holder removed it between our open and our lock
    }
  }

  Result<uint64_t> free_space(const std::string& directory) override {
    struct statvfs status{};
    if (::statvfs(directory.c_str(), &status) != 0)
      return system_error("read the free space of", directory, errno);
    return static_cast<uint64_t>(status.f_bavail) * status.f_frsize;
  }

  std::chrono::steady_clock::time_point now() override { return std::chrono::steady_clock::now(); }
  std::chrono::system_clock::time_point wall_clock() override {
    return std::chrono::system_clock::now();
  }

  uint64_t available_memory() override {
    const uint64_t system_kib = read_number("/proc/meminfo", "MemAvailable:")
                                    .value_or(std::numeric_limits<uint64_t>::max() >> 10);
    return std::min({system_kib << 10, cgroup_memory_left(), address_space_left()});
  }
};

}  // namespace

Env& Env::real() {
  static RealEnv env;
  return env;
}

}  // namespace ondol
