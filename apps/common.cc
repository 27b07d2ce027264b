#include "common.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>

#include "base/cpu_budget.h"
#include "base/units.h"
#include "gguf/text.h"
#include "tokenizer/utf8.h"

namespace ondol::app {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void on_interrupt(int) {
  if (g_interrupted != 0) _exit(130);
  g_interrupted = 1;
}

const std::map<std::string, KvType> kKvTypes = {
    {"f16", KvType::kF16}, {"q8_0", KvType::kQ8_0}, {"f32", KvType::kF32}};

std::unexpected<Error> unreadable_stdin() {
  return failed(fmt::format("cannot read stdin: {}; give the text through a pipe or with < FILE",
                            std::strerror(errno)));
}

/// More threads than processors wait for each other; said once, since the figures suffer.
void warn_of_threads(int threads) {
  const CpuFacts facts = cpu_facts();
  const int processors = std::min(facts.cores * facts.threads_per_core, facts.usable_cpus);
  if (threads <= processors) return;
  say("warning: {} threads on {} usable processors wait for each other; without --threads "
      "there are {}\n",
      threads, processors, default_threads(facts));
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
    // Without SA_RESTART: a read that waits for input ends.
    struct sigaction action{};
    action.sa_handler = on_interrupt;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    const auto done = body();
    if (done) return;
    exit_code = done.error().exit_code();
    print_error(done.error());
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
      ->capture_default_str()
      ->check(CLI::IsMember({"f16", "q8_0", "f32"}));
}

void ModelFlags::add_repack_to(CLI::App& command) {
  command.add_flag("--no-repack", no_repack,
                   "Use weights as they lie in the file: slower, but several programs that run the "
                   "same model share its memory");
}

Result<std::unique_ptr<engine::Engine>> ModelFlags::open(engine::EngineOptions options) const {
  const auto path = model_path(model);
  if (!path) return propagate(path);
  options.n_ctx = ctx;
  options.threads = threads;
  options.repack = options.repack && !no_repack;
  options.type_k = options.type_v = kKvTypes.at(kv_type);
  if (const char* isa = std::getenv("ONDOL_ISA")) options.isa = isa;
  auto engine = engine::Engine::open(Env::real(), *path, options);
  if (engine) warn_of_threads(threads);
  if (engine && ctx > (*engine)->model().config().n_ctx_train) {
    say("warning: the model was trained with a context of {} tokens; beyond it answers get worse\n",
        (*engine)->model().config().n_ctx_train);
  }
  return engine;
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

Result<std::string> read_stdin() {
  std::string text;
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (interrupted()) return std::unexpected(interruption());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return unreadable_stdin();
    if (n == 0) return text;
    text.append(buffer, static_cast<size_t>(n));
    if (text.size() > kMaxTextBytes) {
      return usage_error(
          fmt::format("stdin holds more than {}, the most that is read; give a part of it",
                      format_size(kMaxTextBytes)));
    }
  }
}

std::string as_utf8(std::string_view what, std::string text) {
  const auto at = tokenizer::ill_formed_at(text);
  if (!at) return text;
  say("warning: {} is not UTF-8 at byte {}; what is ill-formed is read as U+FFFD (`iconv -f latin1 "
      "-t utf-8` converts)\n",
      gguf::printable(what), *at);
  return tokenizer::replace_ill_formed(text);
}

Result<std::string> read_text(const std::optional<std::string>& file) {
  auto text = file ? Env::real().read_text(*file, kMaxTextBytes) : read_stdin();
  if (interrupted()) return std::unexpected(interruption());
  if (!text) return text;
  return as_utf8(file ? fmt::format("'{}'", *file) : "stdin", std::move(*text));
}

Result<void> check_stdin() {
  const auto error = unreadable_stdin();
  if (interrupted()) return std::unexpected(interruption());
  return std::ferror(stdin) != 0 ? Result<void>(error) : Result<void>();
}

Result<void> for_each_line(const std::function<Result<void>(std::string_view)>& each) {
  for (std::string line; std::getline(std::cin, line);) {
    if (interrupted()) return std::unexpected(interruption());
    if (auto done = each(line); !done) return done;
  }
  return check_stdin();
}

Result<void> print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(fmt::format("cannot write the output: {}", std::strerror(errno)));
    text.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

void write_stderr(std::string_view text) {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

void print_error(const Error& error) {
  constexpr size_t kMostShown = 2000;
  say("error: {}\n", gguf::printable(error.message, kMostShown));
}

bool on_terminal(int fd) { return isatty(fd) == 1; }

}  // namespace ondol::app
