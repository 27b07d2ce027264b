#include "chat/template.h"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <chrono>
#include <ctime>
#include <utility>

#include "ondol_rust.h"

namespace ondol::chat {
namespace {

OndolBytes bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

/// Owns a result of the crate.
class RustResult {
 public:
  explicit RustResult(OndolResult result) : result_(result) {}
  ~RustResult() { ondol_result_free(result_); }
  RustResult(const RustResult&) = delete;
  RustResult& operator=(const RustResult&) = delete;

  bool ok() const { return result_.kind == ONDOL_OK; }
  std::string text() const {
    return {reinterpret_cast<const char*>(result_.text), result_.text_size};
  }
  TemplateFailure failure() const {
    return {static_cast<FailureKind>(result_.kind), text(), static_cast<int>(result_.line)};
  }
  Prompt prompt() const {
    Prompt prompt{text(), {}, result_.aligned};
    for (size_t i = 0; i < result_.untrusted_size; ++i) {
      prompt.untrusted.push_back({result_.untrusted[i].begin, result_.untrusted[i].end});
    }
    return prompt;
  }

 private:
  OndolResult result_;
};

/// The local time as the crate reads it.
std::string local_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm local{};
  localtime_r(&now, &local);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", local.tm_year + 1900, local.tm_mon + 1,
                     local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec);
}

}  // namespace

Error TemplateFailure::error() const {
  const std::string place = line > 0 ? fmt::format(", line {}", line) : "";
  switch (kind) {
    case FailureKind::kSyntax:
      return {ErrorKind::kRefused,
              fmt::format("the chat template{} cannot be compiled: {}", place, message)};
    case FailureKind::kRaise:
      return {ErrorKind::kUsage,
              fmt::format("the chat template refuses these messages: {}", message)};
    case FailureKind::kLimit:
      return {ErrorKind::kRefused,
              fmt::format("the chat template{} was stopped: {}", place, message)};
    case FailureKind::kApi:
      return {ErrorKind::kUsage, message};
    case FailureKind::kUndefined:
    case FailureKind::kRuntime:
      return {ErrorKind::kUsage,
              fmt::format("the chat template{} failed on these messages: {}", place, message)};
    case FailureKind::kInternal:
      break;
  }
  return {ErrorKind::kFailed, message};
}

void ChatTemplate::Free::operator()(OndolTemplate* compiled) const {
  ondol_template_free(compiled);
}

std::expected<ChatTemplate, TemplateFailure> ChatTemplate::try_compile(std::string_view source) {
  OndolTemplate* compiled = nullptr;
  const RustResult result(ondol_template_compile(bytes(source), &compiled));
  if (!result.ok()) {
    return std::unexpected(result.failure());
  }
  ChatTemplate chat_template;
  chat_template.compiled_.reset(compiled);
  return chat_template;
}

Result<ChatTemplate> ChatTemplate::compile(std::string_view source) {
  auto compiled = try_compile(source);
  if (!compiled) {
    return std::unexpected(compiled.error().error());
  }
  return std::move(*compiled);
}

Result<ChatTemplate> ChatTemplate::of_model(std::optional<std::string_view> source) {
  if (!source || source->empty()) {
    return usage_error(
        "this model has no chat template (tokenizer.chat_template): give one with --template FILE, "
        "or send the text as it "
        "is with --raw");
  }
  return compile(*source);
}

Result<std::optional<std::string_view>> template_source(const gguf::File& file) {
  if (file.find("tokenizer.chat_template") == nullptr) return std::nullopt;
  const auto text = file.get_string("tokenizer.chat_template");
  if (!text) return propagate(text);
  return *text;
}

boost::json::object prompt_options(const tokenizer::Tokenizer& tokenizer) {
  boost::json::object options{{"add_generation_prompt", true}};
  if (const auto bos = tokenizer.bos()) options["bos_token"] = tokenizer.token_text(*bos);
  if (const auto eos = tokenizer.eos()) options["eos_token"] = tokenizer.token_text(*eos);
  return options;
}

Result<ChatTemplate> ChatTemplate::of_model(const gguf::File& file) {
  const auto source = template_source(file);
  if (!source) return propagate(source);
  return of_model(*source);
}

std::expected<Prompt, TemplateFailure> ChatTemplate::try_render(
    std::string_view request_json, const ControlTokens* controls) const {
  const std::string now = local_now();
  const RustResult result(
      ondol_template_render(compiled_.get(), bytes(request_json), bytes(now),
                            controls == nullptr ? nullptr : controls->handle()));
  if (!result.ok()) {
    return std::unexpected(result.failure());
  }
  return result.prompt();
}

Result<std::string> ChatTemplate::render(const boost::json::object& request) const {
  auto prompt = try_render(boost::json::serialize(request), nullptr);
  if (!prompt) {
    return std::unexpected(prompt.error().error());
  }
  return std::move(prompt->text);
}

Result<Prompt> ChatTemplate::render_prompt(const boost::json::object& request,
                                           const ControlTokens& controls) const {
  auto prompt = try_render(boost::json::serialize(request), &controls);
  if (!prompt) {
    return std::unexpected(prompt.error().error());
  }
  return std::move(*prompt);
}

}  // namespace ondol::chat
