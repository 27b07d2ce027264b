// Thread rule: a Sha256 belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace ondol {

/// SHA-256 (FIPS 180-4) of bytes that arrive part by part.
class Sha256 {
 public:
  Sha256();
  /// Hashes `bytes` behind those given before.
  void update(std::span<const std::byte> bytes);
  /// The digest of everything so far, 64 lower-case hex digits; starts afresh.
  std::string finish();

 private:
  struct Free {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, Free> context_;
};

}  // namespace ondol
