#include "common.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>

namespace ondol::app {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void on_interrupt(int) {
  if (g_interrupted != 0) _exit(130);
  g_interrupted = 1;
}

Result<KvType> parse_kv_type(const std::string& name) {
  if (name == "f16") return KvType::kF16;
  if (name == "q8_0") return KvType::kQ8_0;
  if (name == "f32") return KvType::kF32;
  return usage_error(fmt::format("'{}' is no type of KV cache; there are f16, q8_0 and f32", name));
}

}  // namespace

CLI::App& command(CLI::App& app, const std::string& name, const std::string& what,
                  const std::string& example) {
  CLI::App& sub = *app.add_subcommand(name, what);
  sub.footer("Example: " + example);
  return sub;
}

void on_chosen(CLI::App& command, int& exit_code, std::function<Result<void>()> body) {
  command.callback([&exit_code, body = std::move(body)] {
    std::signal(SIGINT, on_interrupt);
    std::signal(SIGTERM, on_interrupt);
    const auto done = body();
    if (done) return;
    exit_code = done.error().exit_code();
    fmt::print(stderr, "error: {}\n", done.error().message);
  });
}

void ModelFlags::add_to(CLI::App& command) {
  command.add_option("model", model,
                     "A GGUF file, a name in the store, or hf:org/repo[:file or quant]");
  command
      .add_option(
          "--ctx", ctx,
          "Context in tokens: prompt and answer together (default: the model's, up to 32768)")
      ->check(CLI::Range(1, 1 << 30));
  command.add_option("--threads", threads, "Threads (default: one per usable core)")
      ->check(CLI::Range(1, 1024));
  command.add_option("--kv-type", kv_type, "How keys and values are cached: f16, q8_0 or f32")
      ->capture_default_str();
}

Result<std::unique_ptr<engine::Engine>> ModelFlags::open(engine::EngineOptions options) const {
  const auto path = model_path(model);
  if (!path) return propagate(path);
  const auto type = parse_kv_type(kv_type);
  if (!type) return propagate(type);
  options.n_ctx = ctx;
  options.threads = threads;
  options.type_k = options.type_v = *type;
  if (const char* isa = std::getenv("ONDOL_ISA")) options.isa = isa;
  return engine::Engine::open(Env::real(), *path, options);
}

bool interrupted() { return g_interrupted != 0; }
void clear_interrupt() { g_interrupted = 0; }
Error interruption() { return {ErrorKind::kInterrupted, "interrupted"}; }

Result<std::vector<int32_t>> parse_ids(std::string_view text) {
  std::vector<int32_t> ids;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    std::string_view part = text.substr(start, end - start);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    int32_t id = 0;
    const auto [rest, code] = std::from_chars(part.data(), part.data() + part.size(), id);
    if (code != std::errc{} || rest != part.data() + part.size()) {
      return usage_error(fmt::format("'{}' is no token id; write ids like 1,2,3", part));
    }
    ids.push_back(id);
    start = end + 1;
  }
  return ids;
}

Result<std::string> read_stdin() { return Env::real().read_text("/dev/stdin", kMaxTextBytes); }

Result<void> for_each_line(const std::function<Result<void>(std::string_view)>& each) {
  for (std::string line; std::getline(std::cin, line);) {
    if (interrupted()) return std::unexpected(interruption());
    if (auto done = each(line); !done) return done;
  }
  return {};
}

Result<void> print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return failed(fmt::format("cannot write the output: {}", std::strerror(errno)));
  }
  return {};
}

bool on_terminal(int fd) { return isatty(fd) == 1; }

}  // namespace ondol::app
