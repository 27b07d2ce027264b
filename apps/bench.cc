// bench speed: prefill and decode speed beside what the machine's memory allows.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/json.hpp>

#include "base/units.h"
#include "bench/speed.h"
#include "common.h"

namespace ondol::app {
namespace {

struct BenchFlags {
  ModelFlags model;
  bench::SpeedOptions speed;
  bool json = false;
};

boost::json::array to_json(const std::vector<bench::BatchSpeed>& batches) {
  boost::json::array array;
  for (const auto& batch : batches) {
    array.push_back({{"sequences", batch.sequences},
                     {"tps", boost::json::value_from(batch.tps)},
                     {"v", batch.v}});
  }
  return array;
}

boost::json::object to_json(const engine::Engine& engine, int depth,
                            const bench::SpeedReport& report) {
  // What was not measured is null, not a zero that someone averages.
  const auto of_decode = [&](double value) {
    return report.tg.empty() ? boost::json::value() : boost::json::value(value);
  };
  const auto of_prefill = [&](double value) {
    return report.pp.empty() ? boost::json::value() : boost::json::value(value);
  };
  return {{"model", engine.file().path()},
          {"isa", simd::isa_name(engine.isa())},
          {"threads", engine.threads()},
          {"depth", depth},
          {"pp", boost::json::value_from(report.pp)},
          {"tg", boost::json::value_from(report.tg)},
          {"batches", to_json(report.batches)},
          {"weight_bytes_per_token", report.weight_bytes_per_token},
          {"read_bandwidth_gbps", report.read_bandwidth_gbps},
          {"share_of_bandwidth", of_decode(report.share_of_bandwidth)},
          {"clock_ghz", report.clock_ghz},
          {"prefill_multiply_adds_per_token", of_prefill(report.prefill_multiply_adds_per_token)},
          {"prefill_mac_per_cycle_per_core", of_prefill(report.prefill_mac_per_cycle_per_core)},
          {"peak_rss_bytes", report.peak_rss_bytes},
          {"memory",
           {{"weights", engine.memory().weights},
            {"kv", engine.memory().kv},
            {"compute", engine.memory().compute}}}};
}

std::string to_text(const engine::Engine& engine, int depth, const bench::SpeedReport& report) {
  std::string text =
      fmt::format("{}: {}, {} threads at {:.2f} GHz, depth {}\n", engine.file().path(),
                  simd::isa_name(engine.isa()), engine.threads(), report.clock_ghz, depth);
  if (!report.pp.empty()) {
    text += fmt::format(
        "prefill {:8.2f} tokens/s (median; {:.2f}): {:.1f} multiply-adds per cycle and core\n",
        bench::median(report.pp), fmt::join(report.pp, ", "),
        report.prefill_mac_per_cycle_per_core);
  }
  if (!report.tg.empty()) {
    text += fmt::format("decode  {:8.2f} tokens/s (median; {:.2f})\n", bench::median(report.tg),
                        fmt::join(report.tg, ", "));
  }
  for (const auto& batch : report.batches) {
    text += fmt::format(
        "{:3} sequences {:8.2f} tokens/s together (median; {:.2f}): a step takes {:.2f} times as "
        "long as of one\n",
        batch.sequences, bench::median(batch.tps), fmt::join(batch.tps, ", "), batch.v);
  }
  text += fmt::format("weights read per token {}, memory reads {:.1f} GB/s",
                      format_size(report.weight_bytes_per_token), report.read_bandwidth_gbps);
  if (!report.tg.empty())
    text += fmt::format(": decode uses {:.0f} % of it", report.share_of_bandwidth * 100);
  return text + "\n";
}

Result<void> speed(const BenchFlags& flags) {
  ModelFlags model = flags.model;
  if (model.ctx == 0) {
    model.ctx = flags.speed.depth + std::max({flags.speed.n_prompt, flags.speed.n_generate, 8});
  }
  engine::EngineOptions options{.repack = true};
  for (const int sequences : flags.speed.batches)
    options.n_sequences = std::max(options.n_sequences, sequences);
  const auto engine = model.open(options);
  if (!engine) return propagate(engine);
  const auto progress = [&](int repetition) {
    if (on_terminal()) say("\rrepetition {} of {} ", repetition + 1, flags.speed.repetitions);
  };
  const auto report =
      bench::measure_speed(Env::real(), **engine, flags.speed, progress, interrupted);
  if (on_terminal()) say("\n");
  if (!report) return propagate(report);
  if (flags.json)
    return print(boost::json::serialize(to_json(**engine, flags.speed.depth, *report)) + "\n");
  return print(to_text(**engine, flags.speed.depth, *report));
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  auto& bench =
      command(app, "bench", "Measures on this machine", "ondol bench speed smollm2 -p 512 -n 128");
  bench.require_subcommand(1);
  auto& sub = command(bench, "speed",
                      "Prefill and decode speed with random tokens, beside the memory's bandwidth",
                      "ondol bench speed smollm2 -p 512 -n 128 -r 3 --json");
  auto flags = std::make_shared<BenchFlags>();
  flags->model.add_to(sub);
  flags->model.add_repack_to(sub);
  sub.add_option("-p", flags->speed.n_prompt, "Tokens of the prompt")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 24));
  sub.add_option("-n", flags->speed.n_generate, "Tokens to generate")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 24));
  sub.add_option("-d", flags->speed.depth, "Tokens already in the cache")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 24));
  sub.add_option("-t", flags->model.threads, "Threads (as --threads)")->check(CLI::Range(1, 1024));
  sub.add_option("-r", flags->speed.repetitions, "Repetitions")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  sub.add_option("--batch", flags->speed.batches,
                 "Also decode so many sequences at once, like 8 or 1,2,4,8")
      ->delimiter(',')
      ->check(CLI::Range(1, 512));
  sub.add_flag("--json", flags->json, "One JSON object");
  on_chosen(sub, exit_code, [flags] { return speed(*flags); });
  add_bench_serve(bench, exit_code);
}

}  // namespace ondol::app
