#include "serve/openai_request.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "decode/stop.h"

namespace ondol::serve {
namespace json = boost::json;
namespace {

constexpr int kMostAnswers = 128;
constexpr int kMostTopLogprobs = 20;
constexpr size_t kMostPrompts = 2048;
constexpr int64_t kMostTokens = int64_t{1} << 30;
constexpr double kMost = std::numeric_limits<double>::max();

/// Fields of the API and of other servers that would change the answer and that no part of this one
/// does. What they may be without changing anything: null, false, 0, an empty text or list.
constexpr std::string_view kUnsupported[] = {"audio",
                                             "functions",
                                             "function_call",
                                             "web_search_options",
                                             "grammar",
                                             "guided_json",
                                             "guided_regex",
                                             "guided_choice",
                                             "guided_grammar",
                                             "json_schema",
                                             "structured_outputs",
                                             "stop_token_ids",
                                             "bad_words",
                                             "min_tokens",
                                             "use_beam_search",
                                             "length_penalty",
                                             "suffix",
                                             "echo",
                                             "prompt_embeds",
                                             "truncate_prompt_tokens",
                                             "mirostat",
                                             "continue_final_message"};

/// Fields of the API that never change an answer: who asks, what is kept, how it is billed.
constexpr std::string_view kWithoutEffect[] = {
    "user",         "metadata",  "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
    "service_tier", "prediction"};

bool says_nothing(const json::value& value) {
  switch (value.kind()) {
    case json::kind::bool_:
      return !value.get_bool();
    case json::kind::string:
      return value.get_string().empty();
    case json::kind::array:
      return value.get_array().empty();
    case json::kind::object:
      return value.get_object().empty();
    default:
      return value.is_null() || value.to_number<double>() == 0;
  }
}

void refuse_unsupported(Fields& fields) {
  for (const auto name : kUnsupported) {
    const json::value* value = fields.find(name);
    if (value != nullptr && !says_nothing(*value))
      fields.fail(name, fmt::format("{} is not supported by this server; leave it out", name));
  }
  for (const auto name : kWithoutEffect) fields.find(name);
  if (const json::value* kept = fields.find("store");
      kept != nullptr && kept->is_bool() && kept->get_bool()) {
    fields.fail("store", "store is true, but this server keeps no answers; leave it out");
  }
}

void read_logit_bias(Fields& fields, int n_vocab, decode::SamplingParams& sampling) {
  const json::object* biases = fields.object("logit_bias");
  if (biases == nullptr) return;
  for (const auto& [key, value] : *biases) {
    const std::string_view text = key;
    int64_t id = 0;
    const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (code != std::errc{} || rest != text.data() + text.size() || id < 0 || id >= n_vocab) {
      fields.fail("logit_bias", fmt::format("logit_bias names '{}', which is no token of this "
                                            "model; ids are 0 to {}",
                                            text, n_vocab - 1));
      return;
    }
    const double bias = value.is_number() ? value.to_number<double>() : kMost;
    if (!(bias >= -100 && bias <= 100)) {
      fields.fail("logit_bias",
                  fmt::format("logit_bias of token {} must be a number from -100 to 100", id));
      return;
    }
    sampling.logit_bias[static_cast<int32_t>(id)] = bias;
  }
}

void read_sampling(Fields& fields, int n_vocab, decode::SamplingParams& sampling) {
  sampling.temperature = fields.number("temperature", 1, 0, 100);
  sampling.top_p = fields.number("top_p", 1, 0, 1);
  sampling.min_p = fields.number("min_p", 0, 0, 1);
  sampling.typical_p = fields.number("typical_p", 1, 0, 1);
  sampling.top_k = static_cast<int>(fields.integer("top_k", -1, kMostTokens).value_or(0));
  sampling.presence_penalty = fields.number("presence_penalty", 0, -2, 2);
  sampling.frequency_penalty = fields.number("frequency_penalty", 0, -2, 2);
  sampling.repetition_penalty = fields.number("repetition_penalty", 1, 1e-3, 1e3);
  // A negative seed is a seed, too: its bits count.
  if (const auto seed = fields.integer("seed", std::numeric_limits<int64_t>::min(),
                                       std::numeric_limits<int64_t>::max())) {
    sampling.seed = static_cast<uint64_t>(*seed);
  }
  read_logit_bias(fields, n_vocab, sampling);
}

void read_stops(Fields& fields, std::vector<std::string>& stops) {
  const json::value* value = fields.find("stop");
  if (value == nullptr) return;
  if (const auto* text = value->if_string()) stops.emplace_back(*text);
  if (const auto* list = value->if_array()) {
    for (const json::value& item : *list) {
      if (!item.is_string()) {
        fields.fail("stop", fmt::format("stop holds {}; it must hold texts", kind_of(item)));
        return;
      }
      stops.emplace_back(item.get_string());
    }
  } else if (!value->is_string()) {
    fields.fail("stop",
                fmt::format("stop is {}; it must be a text or a list of texts", kind_of(*value)));
  }
  const auto valid = decode::StopMatcher::make(stops);
  if (!valid) fields.fail("stop", "stop: " + valid.error().message);
}

void read_stream(Fields& fields, AnswerSettings& settings) {
  settings.stream = fields.boolean("stream", false);
  const json::object* options = fields.object("stream_options");
  if (options == nullptr) return;
  if (!settings.stream)
    fields.fail("stream_options", "stream_options is only allowed where stream is true");
  Fields inner(*options);
  settings.include_usage = inner.boolean("include_usage", false);
  inner.boolean("include_obfuscation", false);
  if (inner.error()) {
    fields.fail("stream_options." + inner.error()->param, inner.error()->message);
  }
  for (const auto& name : inner.unread()) settings.ignored.push_back("stream_options." + name);
}

void read_settings(Fields& fields, int n_vocab, AnswerSettings& settings) {
  settings.model = fields.text("model").value_or("");
  read_stream(fields, settings);
  read_sampling(fields, n_vocab, settings.sampling);
  read_stops(fields, settings.stops);
  settings.n = static_cast<int>(fields.integer("n", 1, kMostAnswers).value_or(1));
  settings.ignore_end = fields.boolean("ignore_eos", false);
  settings.cache_salt = fields.text("cache_salt").value_or("");
  const auto older = fields.integer("max_tokens", 1, kMostTokens);
  const auto newer = fields.integer("max_completion_tokens", 1, kMostTokens);
  settings.max_tokens = static_cast<int>(newer.value_or(older.value_or(-1)));
  refuse_unsupported(fields);
}

void read_chat_logprobs(Fields& fields, AnswerSettings& settings) {
  settings.logprobs = fields.boolean("logprobs", false);
  const auto top = fields.integer("top_logprobs", 0, kMostTopLogprobs);
  if (top.value_or(0) > 0 && !settings.logprobs)
    fields.fail("top_logprobs", "top_logprobs needs logprobs to be true");
  if (settings.logprobs) settings.sampling.n_logprobs = static_cast<int>(top.value_or(0));
}

void read_format(Fields& fields) {
  const json::object* format = fields.object("response_format");
  if (format == nullptr) return;
  const json::value* type = format->if_contains("type");
  if (type != nullptr && type->is_string() && type->get_string() == "text") return;
  fields.fail("response_format",
              "response_format must be {\"type\": \"text\"}; answers bound to JSON or a schema are "
              "not supported by this server");
}

void read_modalities(Fields& fields) {
  const json::array* kinds = fields.array("modalities");
  if (kinds == nullptr) return;
  for (const json::value& kind : *kinds) {
    if (!kind.is_string() || kind.get_string() != "text")
      fields.fail("modalities", "modalities must be [\"text\"]; this server answers in text only");
  }
}

/// Keeps what nobody asked for, or returns the mistake.
template <class T>
ApiResult<T> conclude(const Fields& fields, T request) {
  if (fields.error()) return std::unexpected(*fields.error());
  for (auto& name : fields.unread()) request.settings.ignored.push_back(std::move(name));
  return request;
}

}  // namespace

TokenIds read_tokens(Fields& fields, std::string_view name, const json::array& values,
                     int n_vocab) {
  TokenIds ids;
  ids.reserve(values.size());
  for (const json::value& value : values) {
    const auto id = whole_number(value);
    if (!id || *id < 0 || *id >= n_vocab) {
      fields.fail(
          name,
          fmt::format("{} holds {}, which is no token of this model; ids are 0 to {}", name,
                      value.is_primitive() && !value.is_string() ? json::serialize(value)
                                                                 : std::string(kind_of(value)),
                      n_vocab - 1));
      return {};
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

ApiResult<ChatRequest> parse_chat(const json::object& body, int n_vocab,
                                  std::string_view chat_template) {
  Fields fields(body);
  ChatRequest request;
  read_conversation(fields, chat_template, request.conversation);
  read_settings(fields, n_vocab, request.settings);
  read_chat_logprobs(fields, request.settings);
  read_format(fields);
  read_modalities(fields);
  return conclude(fields, std::move(request));
}

ApiResult<CompletionRequest> parse_completion(const json::object& body, int n_vocab) {
  Fields fields(body);
  CompletionRequest request;
  read_settings(fields, n_vocab, request.settings);
  if (const auto top = fields.integer("logprobs", 0, kMostTopLogprobs)) {
    request.settings.logprobs = true;
    request.settings.sampling.n_logprobs = static_cast<int>(*top);
  }
  if (const auto best_of = fields.integer("best_of", 1, kMostAnswers);
      best_of && *best_of != request.settings.n) {
    fields.fail("best_of", "best_of is not supported by this server; ask for n answers");
  }
  const json::value* prompt = fields.find("prompt");
  if (prompt == nullptr) {
    fields.fail("prompt", "prompt is missing; give a text or a list of token ids");
  } else if (const auto* text = prompt->if_string()) {
    request.prompts.emplace_back(std::string(*text));
  } else if (const auto* list = prompt->if_array(); list == nullptr || list->empty()) {
    fields.fail("prompt", "prompt must be a text, a list of texts or token ids, and not empty");
  } else if (list->front().is_number()) {
    request.prompts.emplace_back(read_tokens(fields, "prompt", *list, n_vocab));
  } else {
    if (list->size() > kMostPrompts)
      fields.fail("prompt", fmt::format("prompt holds more than {} prompts", kMostPrompts));
    for (const json::value& item : *list) {
      if (const auto* one = item.if_string()) {
        request.prompts.emplace_back(std::string(*one));
      } else if (const auto* ids = item.if_array()) {
        request.prompts.emplace_back(read_tokens(fields, "prompt", *ids, n_vocab));
      } else {
        fields.fail("prompt", fmt::format("prompt holds {}; it must hold texts or lists of ids",
                                          kind_of(item)));
      }
      if (fields.error()) break;
    }
  }
  return conclude(fields, std::move(request));
}

}  // namespace ondol::serve
