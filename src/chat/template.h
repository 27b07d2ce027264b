// Thread rule: a ChatTemplate and ControlTokens are immutable and may be used from any thread.
#pragma once

#include <bitset>
#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "tokenizer/tokenizer.h"

struct OndolTemplate;
struct OndolControls;

namespace ondol::chat {

/// Why a template was refused or a rendering failed.
enum class FailureKind : uint8_t {
  kSyntax = 1,  ///< the template cannot be compiled
  kRaise,       ///< the template called raise_exception: the request is not one that it takes
  kUndefined,   ///< something that does not exist was used
  kRuntime,     ///< an operation failed, such as text + list
  kLimit,       ///< a bound on time, memory, output or nesting stopped it
  kApi,         ///< the request was refused before the template ran
  kInternal,    ///< a bug of ours
};

struct TemplateFailure {
  FailureKind kind = FailureKind::kInternal;
  std::string message;  ///< for kRaise the template's own words
  int line = 0;         ///< the template's line, from 1; 0 where there is none
  /// As an error of the program: one sentence with the line. A template that cannot be compiled or
  /// that a bound stopped is kRefused, everything else is the request's fault, kUsage.
  Error error() const;
};

/// Bytes `begin` up to `end` of a prompt.
struct Span {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const Span&) const = default;
};

/// A rendered prompt. `untrusted` are the places where the letters of a control token stand that
/// came from the request (a message, a tool), in order: they have to be encoded as plain letters.
struct Prompt {
  std::string text;
  std::vector<Span> untrusted;
  /// False where the template looks into the text so closely that the places could not be told
  /// apart; then every place of a control token that the request mentions is untrusted, also where
  /// the template wrote it.
  bool aligned = true;
};

/// The control tokens of a vocabulary, prepared for searching. Make it once for each model.
class ControlTokens {
 public:
  /// All tokens of the kind kControl.
  explicit ControlTokens(const tokenizer::Tokenizer& tokenizer);
  /// For tests: texts and their ids.
  explicit ControlTokens(std::unordered_map<std::string, tokenizer::TokenId> ids);

  struct Match {
    size_t length = 0;
    tokenizer::TokenId id = -1;
  };
  /// The longest control token that stands at `at`; length 0 where there is none.
  Match match(std::string_view text, size_t at) const;
  const OndolControls* handle() const { return handle_.get(); }

 private:
  void prepare();
  struct Free {
    void operator()(OndolControls* controls) const;
  };
  std::unordered_map<std::string, tokenizer::TokenId> ids_;
  std::vector<size_t> lengths_;  // longest first
  std::bitset<256> first_bytes_;
  std::unique_ptr<OndolControls, Free> handle_;
};

/// A model's chat template (Jinja), which behaves as under Hugging Face's `apply_chat_template`.
/// Templates are not trusted: work, memory, output and nesting are bounded, and nothing of the
/// machine can be reached.
class ChatTemplate {
 public:
  /// Compiles a template. kRefused names the line.
  static Result<ChatTemplate> compile(std::string_view source);
  /// The same with the failure taken apart.
  static std::expected<ChatTemplate, TemplateFailure> try_compile(std::string_view source);
  /// The template that a model file carries. A model without one is a usage error that says what to
  /// do instead: a guessed format would give worse answers without anybody noticing.
  static Result<ChatTemplate> of_model(std::optional<std::string_view> source);
  static Result<ChatTemplate> of_model(const gguf::File& file);

  /// Renders `{"messages": […], "tools": […], "options": {…}, "date": "2026-03-04T09:26:53"}`.
  /// `options` become the template's variables (add_generation_prompt, enable_thinking, bos_token,
  /// …), but for continue_final_message. Options whose names end in `_token` are taken for the
  /// model's own tokens: never pass a client's through. A missing date is the local time.
  /// `{"context": {…}}` in the place of all that gives the variables as they are.
  Result<std::string> render(const boost::json::object& request) const;
  /// The same, with the places of control tokens that came from the request.
  Result<Prompt> render_prompt(const boost::json::object& request,
                               const ControlTokens& controls) const;
  /// The same for a request's JSON text, whose numbers stay as they are written. `controls` may be
  /// null.
  std::expected<Prompt, TemplateFailure> try_render(std::string_view request_json,
                                                    const ControlTokens* controls) const;

 private:
  struct Free {
    void operator()(OndolTemplate* compiled) const;
  };
  std::unique_ptr<OndolTemplate, Free> compiled_;
};

/// The template in a model file's metadata, tokenizer.chat_template; nothing where it has none.
Result<std::optional<std::string_view>> template_source(const gguf::File& file);

/// The options of a prompt that asks for an answer: add_generation_prompt and the model's own
/// bos_token and eos_token.
boost::json::object prompt_options(const tokenizer::Tokenizer& tokenizer);

/// A prompt's ids. Control tokens that the template wrote become their ids; everything between two
/// of them is encoded as one text, in which control tokens' letters are plain letters. No BOS or
/// EOS is added: the template writes them.
std::vector<tokenizer::TokenId> encode_prompt(const tokenizer::Tokenizer& tokenizer,
                                              const ControlTokens& controls, const Prompt& prompt);

/// One line of `ondol render`: a request as JSON text (see ChatTemplate::render) to the prompt as a
/// JSON string, or to
/// `{"error": "…"}`. Broken JSON and broken UTF-8 are errors like any other.
std::string render_line(const ChatTemplate& chat_template, std::string_view json_line);

/// Clients send the arguments of a tool call as JSON text, templates want them as an object:
/// parses, in `request`, each `messages[i].tool_calls[j].function.arguments` that is the text of a
/// JSON object. Other texts stay.
void parse_tool_arguments(boost::json::object& request);

}  // namespace ondol::chat
