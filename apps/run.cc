// run: one answer, streamed.
#include <fmt/format.h>

#include <boost/json.hpp>

#include "answer.h"
#include "common.h"

namespace ondol::app {
namespace {

struct RunFlags {
  ModelFlags model;
  SamplingFlags sampling;
  std::optional<std::string> prompt;
  std::optional<std::string> file;
  std::optional<std::string> tokens;
  std::string system;
  std::string spec = "auto";
  bool raw = false;
  bool json = false;
};

Result<std::string> read_prompt(const RunFlags& flags) {
  if (flags.prompt) return as_utf8("the prompt", *flags.prompt);
  if (!flags.file && on_terminal(STDIN_FILENO)) say("type the prompt, end with Ctrl-D\n");
  return read_text(flags.file);
}

/// The ids to start from: given as such, text as it is, or a conversation through the model's
/// template.
Result<std::vector<int32_t>> prompt_ids(const RunFlags& flags, const engine::Engine& engine) {
  if (flags.tokens) return parse_ids(*flags.tokens);
  const auto text = read_prompt(flags);
  if (!text) return propagate(text);
  if (flags.raw)
    return engine.tokenizer().encode(*text, {.add_special = true, .parse_special = true});
  const auto conversation = Conversation::make(engine, as_utf8("the system prompt", flags.system));
  if (!conversation) return propagate(conversation);
  return conversation->ask(*text);
}

boost::json::object report(const engine::Engine& engine, const engine::Generation& answer,
                           double load_ms) {
  return {{"text", answer.text},
          {"tokens", boost::json::value_from(answer.tokens)},
          {"prompt_tokens", answer.n_prompt},
          {"cached_tokens", 0},
          {"completion_tokens", answer.tokens.size()},
          {"finish_reason", answer.finish_reason},
          {"timings",
           {{"load_ms", load_ms},
            {"prefill_ms", answer.prefill_ms},
            {"prefill_tps", answer.prefill_tps()},
            {"decode_ms", answer.decode_ms},
            {"decode_tps", answer.decode_tps()},
            {"drafted", 0},
            {"accepted", 0}}},
          {"isa", simd::isa_name(engine.isa())},
          {"threads", engine.threads()}};
}

Result<void> run(const RunFlags& flags) {
  const auto start = Env::real().now();
  const auto engine = flags.model.open();
  if (!engine) return propagate(engine);
  const double load_ms = milliseconds_since(start);
  auto request = flags.sampling.request();
  auto ids = prompt_ids(flags, **engine);
  if (!ids) return propagate(ids);
  request.prompt = std::move(*ids);
  engine::GenerateOptions options{.stops = flags.sampling.stops, .interrupted = interrupted};
  if (!flags.json) options.on_text = print;
  const auto answer = engine::generate(Env::real(), **engine, std::move(request), options);
  if (!answer) return propagate(answer);
  if (!flags.json) {
    if (const auto ended = print("\n"); !ended) return ended;
  }
  if (flags.json) return print(boost::json::serialize(report(**engine, *answer, load_ms)) + "\n");
  say("{}\n", speed_line(*answer));
  return {};
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto& sub = command(app, "run", "One answer, streamed",
                      "ondol run smollm2 -p \"Why is the sky blue?\" -n 100");
  auto flags = std::make_shared<RunFlags>();
  flags->model.add_to(sub);
  auto* prompt = sub.add_option("-p,--prompt", flags->prompt, "The prompt (default: stdin)");
  auto* file =
      sub.add_option("-f,--file", flags->file, "A file with the prompt, UTF-8 up to 256 MiB")
          ->excludes(prompt);
  auto* system = sub.add_option("--system", flags->system, "The system prompt");
  sub.add_option("--tokens", flags->tokens, "The prompt as token ids, like 1,2,3")
      ->excludes(prompt)
      ->excludes(file)
      ->excludes(system);
  sub.add_flag("--raw", flags->raw,
               "The prompt goes to the model as it is, without the chat template")
      ->excludes(system);
  sub.add_option("--spec", flags->spec,
                 "Speculative decoding: auto or off; this version has no drafter, both mean off")
      ->check(CLI::IsMember({"auto", "off"}));
  flags->sampling.add_to(sub);
  sub.add_flag("--json", flags->json, "One JSON object when the answer is complete");
  on_chosen(sub, exit_code, [flags] { return run(*flags); });
}

}  // namespace ondol::app
