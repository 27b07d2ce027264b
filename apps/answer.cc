#include "answer.h"

#include <fmt/format.h>

#include <charconv>

#include "base/env.h"
#include "common.h"

namespace ondol::app {

void SamplingFlags::add_to(CLI::App& command) {
  command
      .add_option("-n,--max-tokens", max_tokens,
                  "Tokens to answer with at most (default: what the context holds)")
      ->check(CLI::Range(1, 1 << 30));
  command.add_option("--temp", params.temperature, "Temperature; 0 takes the most probable token")
      ->capture_default_str();
  command.add_option("--top-k", params.top_k, "Only the k most probable tokens; 0: all")
      ->capture_default_str();
  command.add_option("--top-p", params.top_p, "Only the most probable tokens that make up p")
      ->capture_default_str();
  command
      .add_option("--min-p", params.min_p, "Only tokens at least p times as probable as the best")
      ->capture_default_str();
  command.add_option("--typical-p", params.typical_p,
                     "Only the most typical tokens that make up p; 1: all");
  command.add_option("--repeat-penalty", params.repetition_penalty,
                     "Weakens tokens that occurred; 1: off");
  command.add_option("--presence-penalty", params.presence_penalty,
                     "Subtracted once from tokens that occurred");
  command.add_option("--frequency-penalty", params.frequency_penalty,
                     "Subtracted per occurrence of a token");
  command.add_option("--seed", seed, "Makes the answer repeatable (default: another each time)")
      ->check([](const std::string& text) -> std::string {
        uint64_t value = 0;
        const char* end = text.data() + text.size();
        const auto [rest, code] = std::from_chars(text.data(), end, value);
        const bool whole = code == std::errc{} && rest == end;
        return whole ? "" : "a seed is a whole number from 0 to 18446744073709551615";
      });
  command.add_option("--stop", stops,
                     "Ends the answer before this text; may be given several times");
}

engine::Request SamplingFlags::request() const {
  engine::Request request{.sampling = params, .max_tokens = max_tokens};
  request.sampling.seed = seed;
  return request;
}

Result<Conversation> Conversation::make(const engine::Engine& engine, const std::string& system) {
  auto compiled = chat::ChatTemplate::of_model(engine.file());
  if (!compiled) return propagate(std::move(compiled));
  return Conversation(engine, std::move(*compiled), system);
}

Result<std::vector<int32_t>> Conversation::ask(std::string_view question) const {
  const auto& tokenizer = engine_->tokenizer();
  boost::json::array messages;
  if (!system_.empty()) messages.push_back({{"role", "system"}, {"content", system_}});
  messages.insert(messages.end(), messages_.begin(), messages_.end());
  messages.push_back({{"role", "user"}, {"content", question}});
  const chat::ControlTokens controls(tokenizer);
  const auto prompt = template_.render_prompt(
      {{"messages", std::move(messages)}, {"options", chat::prompt_options(tokenizer)}}, controls);
  if (!prompt) return propagate(prompt);
  return chat::encode_prompt(tokenizer, controls, *prompt);
}

void Conversation::keep(std::string_view question, std::string_view answer) {
  messages_.push_back({{"role", "user"}, {"content", question}});
  messages_.push_back({{"role", "assistant"}, {"content", answer}});
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Env::real().now() - start).count();
}

std::string speed_line(const engine::Generation& answer) {
  const auto counted = [](size_t n, std::string_view what, double tps) {
    // One token alone comes from the prompt's own pass: nothing was timed.
    const std::string speed = tps > 0 ? fmt::format(" at {:.1f} tokens/s", tps) : "";
    return fmt::format("{} {}{}{}", n, what, n == 1 ? "" : "s", speed);
  };
  return fmt::format(
      "[{}, {}]",
      counted(static_cast<size_t>(answer.n_prompt), "prompt token", answer.prefill_tps()),
      counted(answer.tokens.size(), "token", answer.decode_tps()));
}

}  // namespace ondol::app
