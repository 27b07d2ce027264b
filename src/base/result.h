// Thread rule: values; no shared state.
#pragma once

#include <expected>
#include <string>
#include <utility>

namespace ondol {

/// What went wrong, which decides the exit code of a command (docs: exit codes) and the HTTP status
/// of a request.
enum class ErrorKind {
  kFailed,  ///< exit 1: the work could not be done (I/O, network, a bug of ours)
  kUsage,   ///< exit 2: the caller asked for something that does not exist or does not fit together
  kRefused,      ///< exit 3: an input file is broken, hostile or not supported
  kNoMemory,     ///< exit 4: it would not fit in memory
  kInterrupted,  ///< exit 130: the user stopped it
};

/// One sentence that says what is wrong and what to do. Errors from a file name the byte offset and
/// the field.
struct Error {
  ErrorKind kind = ErrorKind::kFailed;
  std::string message;

  /// The process exit code for this kind of error.
  int exit_code() const {
    switch (kind) {
      case ErrorKind::kFailed:
        return 1;
      case ErrorKind::kUsage:
        return 2;
      case ErrorKind::kRefused:
        return 3;
      case ErrorKind::kNoMemory:
        return 4;
      case ErrorKind::kInterrupted:
        return 130;
    }
    return 1;
  }
};

/// The outcome of anything that touches a file, the network, a user or a memory limit.
template <class T>
class [[nodiscard]] Result : public std::expected<T, Error> {
 public:
  using std::expected<T, Error>::expected;
};

/// An error of a kind, to be returned as a Result; below, one for each kind but interruption.
inline std::unexpected<Error> fail(ErrorKind kind, std::string message) {
  return std::unexpected(Error{kind, std::move(message)});
}
inline std::unexpected<Error> failed(std::string message) {
  return fail(ErrorKind::kFailed, std::move(message));
}
inline std::unexpected<Error> usage_error(std::string message) {
  return fail(ErrorKind::kUsage, std::move(message));
}
inline std::unexpected<Error> refused(std::string message) {
  return fail(ErrorKind::kRefused, std::move(message));
}
inline std::unexpected<Error> no_memory(std::string message) {
  return fail(ErrorKind::kNoMemory, std::move(message));
}

/// Passes an error on: `if (!r) return propagate(r);`
template <class T>
std::unexpected<Error> propagate(const Result<T>& result) {
  return std::unexpected(result.error());
}
template <class T>
std::unexpected<Error> propagate(Result<T>&& result) {
  return std::unexpected(std::move(result).error());
}

}  // namespace ondol
