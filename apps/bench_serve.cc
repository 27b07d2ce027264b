// bench serve: load against any server of OpenAI's API.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <cstring>

#include "bench/load.h"
#include "common.h"

namespace ondol::app {
namespace {

struct ServeBenchFlags {
  bench::LoadOptions load;
  double ttft_limit_ms = 0;
  double tpot_limit_ms = 0;
  std::string plot;
  bool json = false;
};

Result<void> write_file(const std::string& path, std::string_view text) {
  auto file = Env::real().open_writable(path, WriteMode::kTruncate);
  if (!file) return propagate(std::move(file));
  if (auto done = (*file)->append(std::as_bytes(std::span(text))); !done) return done;
  return (*file)->close();
}

/// Errors are part of what was measured; only where nothing was answered has the command failed.
Result<void> load(ServeBenchFlags flags) {
  bench::LoadOptions& options = flags.load;
  options.ttft_limit_s = flags.ttft_limit_ms / 1e3;
  options.tpot_limit_s = flags.tpot_limit_ms / 1e3;
  const auto progress = [&](int ended) {
    if (on_terminal()) say("\r{} answers ", ended);
  };
  const auto report = bench::run_load(Env::real(), options, progress, interrupted);
  if (on_terminal()) say("\n");
  if (!report) return propagate(report);
  auto shown = flags.json ? print(boost::json::serialize(bench::to_json(*report, options)) + "\n")
                          : print(bench::to_text(*report, options));
  if (!shown) return shown;
  if (!flags.plot.empty()) {
    if (auto written = write_file(flags.plot, bench::to_svg(*report)); !written) return written;
  }
  if (!report->samples.empty()) return {};
  if (report->errors.empty()) return usage_error("the workload holds no request: nothing was sent");
  const auto& [kind, text] = *report->told.begin();
  return failed(fmt::format("no request was answered ({}): {}", kind, text));
}

void add_load_flags(CLI::App& sub, bench::LoadOptions& load) {
  constexpr int kMost = 1'000'000;
  sub.add_option("url", load.url, "The server's address, like http://127.0.0.1:8080")->required();
  sub.add_option("--model", load.model, "Its model (default: the first that it lists)");
  sub.add_option("--api-key", load.api_key, "The key to ask with")->envname("OPENAI_API_KEY");
  auto* clients = sub.add_option("--clients", load.clients,
                                 "Closed loop: so many clients, each waits for its answer "
                                 "(default: 1, or a recording as it was)");
  clients->check(CLI::Range(1, 4096));
  sub.add_option("--rate", load.rate,
                 "Open loop: requests per second at random times, whatever is answered")
      ->check(CLI::Range(1e-3, 1e5))
      ->excludes(clients);
  sub.add_option("--requests", load.requests,
                 "Requests to measure (default: 32, or all of a file, or until --duration)")
      ->check(CLI::Range(1, kMost));
  sub.add_option("--duration", load.duration_s, "Start no more after so many seconds")
      ->check(CLI::Range(0.0, 1e6));
  sub.add_option("--warmup", load.warmup, "Requests before that, one by one, not measured")
      ->check(CLI::Range(0, kMost));
  sub.add_option("--timeout", load.timeout_s, "Seconds that one request may take")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 1e5));
}

void add_work_flags(CLI::App& sub, bench::WorkloadOptions& work) {
  sub.add_option("--workload", work.kind,
                 "chat, completions, agent (conversations with tools), or a file: a recording of "
                 "`serve --record`, or one body a line")
      ->capture_default_str();
  sub.add_option("-p,--prompt-tokens", work.prompt_tokens,
                 "Tokens of a prompt; agent: what each turn adds")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 24));
  sub.add_option("-n", work.max_tokens, "Tokens to write")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 24));
  sub.add_option("--shared-prefix", work.shared_prefix,
                 "Tokens that all prompts begin with; agent: of its instructions")
      ->check(CLI::Range(0, 1 << 24));
  sub.add_option("--turns", work.turns, "Turns of an agent's conversation")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000));
  sub.add_option("--seed", work.seed, "Prompts and times of arrival follow from it")
      ->capture_default_str();
  sub.add_flag("--ignore-eos", work.ignore_eos,
               "Write all tokens, also after the text's end (an extension of some servers)");
  sub.add_flag("--keep-answers", work.keep_answers,
               "agent: its history holds what the server said, not what the seed says");
}

}  // namespace

void add_bench_serve(CLI::App& bench, int& exit_code) {
  auto& sub = command(bench, "serve", "Load on a server of OpenAI's API, Ondol's or another",
                      "ondol bench serve http://127.0.0.1:8080 --clients 8 -p 512 -n 64 --json");
  auto flags = std::make_shared<ServeBenchFlags>();
  add_load_flags(sub, flags->load);
  add_work_flags(sub, flags->load.work);
  sub.add_option("--ttft-limit", flags->ttft_limit_ms,
                 "Goodput counts answers whose first token came within so many ms")
      ->check(CLI::Range(0.0, 1e9));
  sub.add_option("--tpot-limit", flags->tpot_limit_ms, "... and whose tokens came each so many ms")
      ->check(CLI::Range(0.0, 1e9));
  sub.add_option("--plot", flags->plot, "Draw the distributions into this SVG file");
  sub.add_flag("--json", flags->json, "One JSON object");
  on_chosen(sub, exit_code, [flags] { return load(*flags); });
}

}  // namespace ondol::app
