// Thread rule: a StopMatcher belongs to one answer and one thread at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ondol::decode {

/// Finds stop texts in text that arrives in pieces and passes on everything that can no longer
/// become one.
///
/// The first stop text to be complete ends the answer, so the outcome does not depend on how the
/// text was cut into pieces; of several that end at the same place the longest counts. The
/// comparison is exact, byte by byte; as pieces and stop texts are whole characters, what comes out
/// is too. Time is linear in the text times the number of stop texts (Knuth, Morris, Pratt: "Fast
/// pattern matching in strings", SIAM J. Comput. 6, 1977).
class StopMatcher {
 public:
  static constexpr size_t kMaxStops = 64;
  static constexpr size_t kMaxStopBytes = 1024;

  /// Usage error for an empty or too long stop text, or too many of them.
  static Result<StopMatcher> make(const std::vector<std::string>& stops);

  /// Takes the next piece of the answer and returns the text that may be shown now. Nothing comes
  /// after a match.
  std::string push(std::string_view piece);

  /// The answer ended by itself (end token, token limit): returns what was still held back.
  std::string finish();

  bool stopped() const { return matched_ >= 0; }
  /// The stop text that ended the answer; empty before that.
  std::string_view matched() const;

 private:
  struct Pattern {
    std::string text;
    /// border[i]: length of the longest proper beginning of text[0, i) that also ends it.
    std::vector<size_t> border;
    size_t state = 0;  ///< how much of `text` the answer ends with
  };

  explicit StopMatcher(const std::vector<std::string>& stops);
  static void advance(Pattern& pattern, char c);

  std::vector<Pattern> patterns_;
  std::string held_;
  int matched_ = -1;  ///< index of the pattern that ended the answer
};

}  // namespace ondol::decode
