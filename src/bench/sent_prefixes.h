// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_set>

namespace ondol::bench {

/// The beginnings of all texts that were sent so far: what a server that forgets nothing could find
/// again. Compared in blocks of kBlock bytes by a hash of everything before, so that memory grows
/// with new text alone, up to kMaxBlocks.
class SentPrefixes {
 public:
  static constexpr size_t kBlock = 16;
  static constexpr size_t kMaxBlocks = size_t{1} << 21;

  /// Bytes of the beginning of `text` that were sent before, down to a whole block; all of it where
  /// only the last, partial block is new.
  size_t known(std::string_view text) const;
  void add(std::string_view text);
  /// There was more text than is remembered: known() may be too low from now on.
  bool is_full() const { return blocks_.size() >= kMaxBlocks; }

 private:
  std::unordered_set<uint64_t> blocks_;
};

}  // namespace ondol::bench
