// Thread rule: a value that never changes after parse(); any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/result.h"

namespace ondol::serve {

/// The keys that clients may come with, each under a name for metrics and fair shares. Only their
/// SHA-256 is kept.
///
/// The file, one key a line:
///
///     # comment
///     alice:the key itself
///     bob sha256:64 hex digits of the key's SHA-256
///
/// Names are 1 to 64 letters, digits and ". _ -", each once. A key is 1 to 512 visible ASCII
/// characters, and no key stands there twice.
class ApiKeys {
 public:
  /// Reads the text of a key file. `path` is for the error messages, which name the line and never
  /// show a key. kRefused for a wrong line and where there is no key at all.
  static Result<ApiKeys> parse(std::string_view text, const std::string& path);
  /// Reads a key file of at most 1 MiB.
  static Result<ApiKeys> load(Env& env, const std::string& path);

  /// The name of a key, or nothing. The time it takes does not depend on the keys of the file.
  std::optional<std::string> find(std::string_view key) const;

 private:
  struct Entry {
    std::string name;
    std::string digest;  ///< 64 lower-case hex digits
    int line;
  };
  static Result<Entry> parse_line(std::string_view line, const std::string& where);
  std::vector<Entry> entries_;
};

/// The key of an `Authorization` header, `Bearer KEY` with the scheme in any case (RFC 6750); empty
/// where it is another scheme.
std::string_view bearer_key(std::string_view authorization);

}  // namespace ondol::serve
