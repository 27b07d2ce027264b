#include "bench/sent_prefixes.h"

namespace ondol::bench {
namespace {

/// FNV-1a (Fowler, Noll, Vo) over all bytes so far, mixed so that near texts end far apart.
class RunningHash {
 public:
  uint64_t add(std::string_view bytes) {
    for (const char c : bytes) {
      state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
    }
    uint64_t mixed = (state_ + bytes.size()) * 0x9E3779B97F4A7C15u;
    return mixed ^ (mixed >> 29);
  }

 private:
  uint64_t state_ = 0xCBF29CE484222325u;
};

}  // namespace

size_t SentPrefixes::known(std::string_view text) const {
  RunningHash hash;
  for (size_t at = 0; at < text.size(); at += kBlock) {
    if (!blocks_.contains(hash.add(text.substr(at, kBlock)))) return at;
  }
  return text.size();
}

void SentPrefixes::add(std::string_view text) {
  RunningHash hash;
  for (size_t at = 0; at < text.size() && !is_full(); at += kBlock)
    blocks_.insert(hash.add(text.substr(at, kBlock)));
}

}  // namespace ondol::bench
