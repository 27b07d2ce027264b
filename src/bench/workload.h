// Thread rule: one thread.
#pragma once

#include <boost/json/object.hpp>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/result.h"

namespace ondol::bench {

/// One request to send.
struct Turn {
  std::string path;            ///< "/v1/chat/completions", ...
  boost::json::object body;    ///< without `model` and `stream`
  size_t session = 0;          ///< of its conversation; answered() wants it
  std::string prefix_text;     ///< what a server reads, in order: two turns that begin alike here
                               ///< begin alike there
  std::optional<double> at_s;  ///< of a recording: seconds after its first request
};

/// The canonical text of a body: its prompt, or its tools and messages one after the other.
std::string prefix_text(const boost::json::object& body);

/// How many words make how many tokens of the served model; chat templates add some.
struct WordRate {
  double tokens_per_word = 1.3;
  double extra_tokens = 0;
  /// Words of a prompt of so many tokens; at least one.
  int words(int tokens, bool with_extra) const;
};

struct WorkloadOptions {
  std::string kind = "chat";  ///< "chat", "completions", "agent", or the path of a file
  int prompt_tokens = 128;    ///< of a prompt (chat, completions), or what a turn adds (agent)
  int max_tokens = 64;
  int shared_prefix = 0;  ///< tokens that every prompt begins with; agent: of its instructions
  int turns = 8;          ///< of one agent's conversation
  uint64_t seed = 1;
  bool ignore_eos = false;
  bool keep_answers = false;  ///< agent: its history has what the server said, not what was planned
  WordRate rate;
};

/// A stream of requests that depends on the seed alone (and, with keep_answers, on the answers).
class Workload {
 public:
  /// kRefused for a file that cannot be read or is no recording; its line is named when it comes.
  static Result<std::unique_ptr<Workload>> make(Env& env, const WorkloadOptions& options);
  virtual ~Workload() = default;
  /// The next request; nothing where a file has ended.
  virtual Result<std::optional<Turn>> next() = 0;
  /// The answer to a turn of this session has ended: its conversation may go on.
  virtual void answered(size_t session, std::string_view text) = 0;
  /// Whether its requests carry the times at which they came.
  virtual bool is_timed() const { return false; }
};

/// `count` English words, each with a blank before it; the same for the same random numbers.
std::string random_words(std::mt19937_64& random, int count);

}  // namespace ondol::bench
