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

/// Lines for people; what was not measured has none.
std::string to_text(const bench::SpeedReport& report) {
  std::string text;
  const auto line = [&](std::string_view name, const std::vector<double>& tps) {
    if (tps.empty()) return;
    text += fmt::format("{:<7} {:8.2f} tokens/s (median; {:.2f})\n", name, bench::median(tps),
                        fmt::join(tps, ", "));
  };
  line("prefill", report.pp);
  line("decode", report.tg);
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
  const auto engine = model.open();
  if (!engine) return propagate(engine);
  const auto progress = [&](int repetition) {
    if (on_terminal()) say("\rrepetition {} of {} ", repetition + 1, flags.speed.repetitions);
  };
  const auto report =
      bench::measure_speed(Env::real(), **engine, flags.speed, progress, interrupted);
  if (on_terminal()) say("\n");
  if (!report) return propagate(report);
  const auto isa = simd::isa_name((*engine)->isa());
  if (flags.json) {
    const boost::json::value share =
        report->tg.empty() ? boost::json::value() : report->share_of_bandwidth;
    const boost::json::object object{{"model", (*engine)->file().path()},
                                     {"isa", isa},
                                     {"threads", (*engine)->threads()},
                                     {"depth", flags.speed.depth},
                                     {"pp", boost::json::value_from(report->pp)},
                                     {"tg", boost::json::value_from(report->tg)},
                                     {"weight_bytes_per_token", report->weight_bytes_per_token},
                                     {"read_bandwidth_gbps", report->read_bandwidth_gbps},
                                     {"share_of_bandwidth", share}};
    return print(boost::json::serialize(object) + "\n");
  }
  return print(fmt::format("{}: {}, {} threads, depth {}\n", (*engine)->file().path(), isa,
                           (*engine)->threads(), flags.speed.depth) +
               to_text(*report));
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
  sub.add_flag("--json", flags->json, "One JSON object");
  on_chosen(sub, exit_code, [flags] { return speed(*flags); });
}

}  // namespace ondol::app
