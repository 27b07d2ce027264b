// Thread rule: a Splitter is immutable and may be used from any thread; a Session from one.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ondol::tokenizer {

/// Cuts a text into the pieces within which byte pairs merge. Patterns apply one after another,
/// each to what the ones before left: a match is a piece, and so is the text between two matches.
class Splitter {
 public:
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void piece(std::string_view text) = 0;
  };

  /// What one thread needs for matching.
  class Session {
   public:
    Session();
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

   private:
    friend class Splitter;
    struct State;
    std::unique_ptr<State> state_;
  };

  /// `\s` and `\S` in a pattern mean Unicode's White_Space, as in the libraries that the patterns
  /// were written for.
  static Result<Splitter> make(std::span<const std::string_view> patterns);
  ~Splitter();
  Splitter(Splitter&&) noexcept;
  Splitter& operator=(Splitter&&) noexcept;

  /// Gives the pieces of `text` (well-formed UTF-8) from left to right; none is empty, and joined
  /// they are the text.
  void split(std::string_view text, Session& session, Sink& sink) const;

 private:
  struct Pattern;
  Splitter();
  void split_from(size_t level, std::string_view text, Session& session, Sink& sink) const;
  std::vector<Pattern> patterns_;
};

}  // namespace ondol::tokenizer
