#include "bench/streamed_answer.h"

#include <array>
#include <boost/json.hpp>

namespace ondol::bench {
namespace {

namespace json = boost::json;

constexpr size_t kMostKept = size_t{1} << 20;  ///< bytes of an answer's text
constexpr size_t kMostPlain = 64 * 1024;       ///< bytes of an answer that is no stream

const json::object* object_in(const json::object& parent, std::string_view name) {
  const auto* value = parent.if_contains(name);
  return value == nullptr ? nullptr : value->if_object();
}

std::optional<int> count_in(const json::object* parent, std::string_view name) {
  const auto* value = parent == nullptr ? nullptr : parent->if_contains(name);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  boost::system::error_code wrong;
  const int count = value->to_number<int>(wrong);
  return wrong ? std::nullopt : std::optional(count);
}

std::string_view text_in(const json::object* parent, std::string_view name) {
  const auto* value = parent == nullptr ? nullptr : parent->if_contains(name);
  return value != nullptr && value->is_string() ? std::string_view(value->get_string())
                                                : std::string_view();
}

/// Tokens that were not computed: OpenAI's field, else what llama-server says in its timings.
std::optional<int> cached_in(const json::object& event, std::optional<int> prompt) {
  const auto* usage = object_in(event, "usage");
  const auto* details = usage == nullptr ? nullptr : object_in(*usage, "prompt_tokens_details");
  if (const auto cached = count_in(details, "cached_tokens")) return cached;
  const auto* timings = object_in(event, "timings");
  if (const auto cached = count_in(timings, "cache_n")) return cached;
  const auto computed = count_in(timings, "prompt_n");
  if (computed && prompt) return std::max(0, *prompt - *computed);
  return std::nullopt;
}

}  // namespace

StreamedAnswer::StreamedAnswer(bool keep_text)
    : keep_text_(keep_text), reader_([this](std::string_view data) { take(data); }) {}

bool StreamedAnswer::push(std::string_view bytes, Clock::time_point now) {
  now_ = now;
  if (plain.size() < kMostPlain) plain += bytes.substr(0, kMostPlain - plain.size());
  if (reader_.push(bytes)) return true;
  error = "an event of the stream is too large";
  return false;
}

std::optional<double> StreamedAnswer::seconds_per_token() const {
  if (!first || n_tokens() < 2) return std::nullopt;
  return std::chrono::duration<double>(last - *first).count() / (n_tokens() - 1);
}

void StreamedAnswer::take_texts() {
  if (first) {
    longest_pause = std::max(longest_pause, std::chrono::duration<double>(now_ - last).count());
  } else {
    first = now_;
  }
  last = now_;
  ++n_texts;
}

void StreamedAnswer::take(std::string_view data) {
  plain.clear();  // it is a stream
  if (data == "[DONE]") {
    done = true;
    return;
  }
  // One buffer for the values of an event: parsing does not allocate, so that it costs about a
  // microsecond and never decides how many streams one client can follow.
  std::array<unsigned char, 16 * 1024> buffer;
  json::monotonic_resource memory(buffer.data(), buffer.size());
  boost::system::error_code wrong;
  const auto value = json::parse(data, wrong, &memory);
  const auto* event = wrong ? nullptr : value.if_object();
  if (event == nullptr) {
    error = "an event of the stream is no JSON object";
    return;
  }
  if (const auto* problem = event->if_contains("error");
      problem != nullptr && !problem->is_null()) {
    error = std::string(text_in(problem->if_object(), "message"));
    if (error.empty()) error = "the stream ended in an error";
    return;
  }
  if (const auto* usage = object_in(*event, "usage")) {
    if (const auto n = count_in(usage, "prompt_tokens")) prompt = n;
    if (const auto n = count_in(usage, "completion_tokens")) completion = n;
  }
  if (const auto n = cached_in(*event, prompt)) cached = n;
  const auto* choices = event->if_contains("choices");
  if (choices == nullptr || !choices->is_array()) return;
  for (const auto& entry : choices->get_array()) {
    const auto* choice = entry.if_object();
    if (choice == nullptr) continue;
    if (const auto why = text_in(choice, "finish_reason"); !why.empty()) finish = why;
    const auto* delta = object_in(*choice, "delta");
    for (const auto part : {text_in(delta, "content"), text_in(delta, "reasoning_content"),
                            text_in(choice, "text")}) {
      if (part.empty()) continue;
      take_texts();
      if (keep_text_ && text.size() < kMostKept) text += part;
    }
  }
}

}  // namespace ondol::bench
