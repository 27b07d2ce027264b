// Thread rule: pure functions over Env; the progress callback runs on the calling thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"

namespace ondol::gguf {

struct VerifyOptions {
  /// SHA-256 sums to compare with, 64 hexadecimal digits each: none, or one per part in the order
  /// of the parts.
  std::vector<std::string> expected;
  /// Called about once per MiB with bytes read so far and in all; false stops (kInterrupted).
  std::function<bool(uint64_t done, uint64_t total)> progress;
};

struct PartSum {
  std::string path;
  uint64_t bytes = 0;
  std::string sha256;             ///< 64 lower-case hexadecimal digits
  std::optional<bool> matches{};  ///< the expected sum, if one was given
};

/// What was found. Sums are there for a broken file too (of the opened part alone: its siblings are
/// not known).
struct Verification {
  std::vector<PartSum> parts;
  std::optional<Error> structure;  ///< why the reader refuses the file; empty: it is sound
  uint64_t n_keys = 0;
  uint64_t n_tensors = 0;

  /// The outcome as one result: kRefused with the first thing that is wrong.
  Result<void> verdict() const;
};

/// Checks the structure of a model file and sums each of its parts. Errors: kFailed (cannot be
/// read), kUsage (an expected sum is none, or their number is not that of the parts), kInterrupted.
Result<Verification> verify(Env& env, const std::string& path, const VerifyOptions& options = {});

std::string to_text(const Verification& verification);
std::string to_json(const Verification& verification);  ///< one object on one line, valid UTF-8

}  // namespace ondol::gguf
