// Thread rule: the main thread.
//
// What run and chat share: sampling flags, the conversation through the model's template, the line
// about speed.
#pragma once

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <string>
#include <vector>

#include "chat/template.h"
#include "engine/engine.h"
#include "engine/generate.h"

namespace ondol::app {

/// -n, --temp, --top-k, ... with defaults for people: lively, not wild.
struct SamplingFlags {
  int max_tokens = -1;
  decode::SamplingParams params{.temperature = 0.8, .top_k = 40, .top_p = 0.95, .min_p = 0.05};
  std::optional<uint64_t> seed;
  std::vector<std::string> stops;

  /// Adds the flags to a command.
  void add_to(CLI::App& command);
  /// A request without its prompt.
  engine::Request request() const;
};

/// Messages so far, rendered by the template of the model file.
class Conversation {
 public:
  /// Usage error where the model has no template: --raw is the way then.
  static Result<Conversation> make(const engine::Engine& engine, const std::string& system);

  /// Token ids of the conversation with one more question. Control tokens written in a message stay
  /// text.
  Result<std::vector<int32_t>> ask(std::string_view question) const;
  /// Keeps a question and its answer.
  void keep(std::string_view question, std::string_view answer);
  /// Forgets the messages; the system prompt stays.
  void clear() { messages_.clear(); }
  /// A new system prompt, and a new conversation.
  void set_system(std::string system) {
    system_ = std::move(system);
    clear();
  }

 private:
  Conversation(const engine::Engine& engine, chat::ChatTemplate chat_template, std::string system)
      : engine_(&engine), template_(std::move(chat_template)), system_(std::move(system)) {}

  const engine::Engine* engine_;
  chat::ChatTemplate template_;
  std::string system_;
  boost::json::array messages_;
};

/// Time since `start`, in milliseconds.
double milliseconds_since(std::chrono::steady_clock::time_point start);
/// "[31 prompt tokens at 912.3 tokens/s, 42 tokens at 101.2 tokens/s]"; no speed where none was
/// measured.
std::string speed_line(const engine::Generation& answer);

}  // namespace ondol::app
