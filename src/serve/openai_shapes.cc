#include "serve/openai_shapes.h"

#include <cmath>

#include "tokenizer/utf8.h"

namespace ondol::serve {
namespace json = boost::json;
namespace {

/// JSON has no infinity; OpenAI writes this for what cannot happen.
double finite(double logprob) { return std::isfinite(logprob) ? logprob : -9999.0; }

json::object token_json(const std::string& bytes, double logprob) {
  json::array list;
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return {{"token", tokenizer::replace_ill_formed(bytes)},
          {"logprob", finite(logprob)},
          {"bytes", std::move(list)}};
}

json::value chat_logprobs(const std::vector<TokenLogprob>* tokens) {
  if (tokens == nullptr) return nullptr;
  json::array content;
  for (const TokenLogprob& token : *tokens) {
    json::array top;
    for (const auto& [bytes, logprob] : token.top) top.push_back(token_json(bytes, logprob));
    auto entry = token_json(token.bytes, token.logprob);
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return json::object{{"content", std::move(content)}, {"refusal", nullptr}};
}

json::value completion_logprobs(const std::vector<TokenLogprob>* tokens) {
  if (tokens == nullptr) return nullptr;
  json::array texts, logprobs, tops, offsets;
  for (const TokenLogprob& token : *tokens) {
    texts.push_back(json::string(tokenizer::replace_ill_formed(token.bytes)));
    logprobs.push_back(finite(token.logprob));
    json::object top;
    // Different broken letters look alike; the best one stays.
    for (const auto& [bytes, logprob] : token.top)
      top.emplace(tokenizer::replace_ill_formed(bytes), finite(logprob));
    tops.push_back(std::move(top));
    offsets.push_back(token.text_offset);
  }
  return json::object{{"tokens", std::move(texts)},
                      {"token_logprobs", std::move(logprobs)},
                      {"top_logprobs", std::move(tops)},
                      {"text_offset", std::move(offsets)}};
}

json::value logprobs_json(const AnswerHead& head, const Piece& piece) {
  return head.chat ? chat_logprobs(piece.logprobs) : completion_logprobs(piece.logprobs);
}

json::value finish_json(const Piece& piece) {
  return piece.finish.empty() ? json::value() : json::value(piece.finish);
}

json::object head_json(const AnswerHead& head, bool is_chunk) {
  const char* object = !head.chat ? "text_completion"
                       : is_chunk ? "chat.completion.chunk"
                                  : "chat.completion";
  return {{"id", head.id},
          {"object", object},
          {"created", head.created},
          {"model", head.model},
          {"system_fingerprint", head.fingerprint}};
}

double per_second(int n, double ms) { return ms > 0 ? n / ms * 1e3 : 0; }

}  // namespace

json::object chunk(const AnswerHead& head, const Piece& piece, bool null_usage) {
  json::object choice{{"index", piece.index}};
  if (head.chat) {
    json::object delta;
    if (piece.first) delta["role"] = "assistant";
    if (piece.first || !piece.text.empty()) delta["content"] = piece.text;
    choice["delta"] = std::move(delta);
  } else {
    choice["text"] = piece.text;
  }
  choice["logprobs"] = logprobs_json(head, piece);
  choice["finish_reason"] = finish_json(piece);
  auto event = head_json(head, true);
  event["choices"] = json::array{std::move(choice)};
  if (null_usage) event["usage"] = nullptr;
  return event;
}

json::object usage_chunk(const AnswerHead& head, const Usage& usage) {
  auto event = head_json(head, true);
  event["choices"] = json::array();
  event["usage"] = to_json(usage);
  return event;
}

json::object whole_answer(const AnswerHead& head, const std::vector<Piece>& choices,
                          const Usage& usage, const Timings& timings) {
  json::array list;
  for (const Piece& piece : choices) {
    json::object choice{{"index", piece.index}};
    if (head.chat) {
      choice["message"] = {{"role", "assistant"}, {"content", piece.text}, {"refusal", nullptr}};
    } else {
      choice["text"] = piece.text;
    }
    choice["logprobs"] = logprobs_json(head, piece);
    choice["finish_reason"] = finish_json(piece);
    list.push_back(std::move(choice));
  }
  auto answer = head_json(head, false);
  answer["choices"] = std::move(list);
  answer["usage"] = to_json(usage);
  answer["timings"] = to_json(timings);
  return answer;
}

json::object to_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt},
          {"completion_tokens", usage.completion},
          {"total_tokens", usage.prompt + usage.completion},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached}}}};
}

json::object to_json(const Timings& timings) {
  return {{"prefill_ms", timings.prefill_ms},
          {"prefill_tps", per_second(timings.n_computed, timings.prefill_ms)},
          {"decode_ms", timings.decode_ms},
          {"decode_tps", per_second(timings.n_decoded, timings.decode_ms)}};
}

}  // namespace ondol::serve
