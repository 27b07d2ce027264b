// Thread rule: the main thread.
//
// What the commands share. A command is a function that adds itself to the command line and, when
// chosen, leaves its exit code.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/result.h"
#include "engine/engine.h"

namespace ondol::app {

/// Adds a command to `app`; its callback sets `exit_code`.
using AddCommand = void (*)(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);
void add_chat(CLI::App& app, int& exit_code);
void add_tokenize(CLI::App& app, int& exit_code);
void add_detokenize(CLI::App& app, int& exit_code);
void add_render(CLI::App& app, int& exit_code);
void add_logits(CLI::App& app, int& exit_code);
void add_perplexity(CLI::App& app, int& exit_code);
void add_show(CLI::App& app, int& exit_code);
void add_verify(CLI::App& app, int& exit_code);
void add_list(CLI::App& app, int& exit_code);
void add_rm(CLI::App& app, int& exit_code);
void add_pull(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_serve(CLI::App& app, int& exit_code);
/// `serve` below `bench`.
void add_bench_serve(CLI::App& bench, int& exit_code);

/// A sub-command with its help text and an example line.
CLI::App& command(CLI::App& app, const std::string& name, const std::string& what,
                  const std::string& example);
/// Runs `body` when the command is chosen: its error goes to stderr and becomes the exit code.
void on_chosen(CLI::App& command, int& exit_code, std::function<Result<void>()> body);

/// The flags of every command that computes: MODEL, --ctx, --threads, --kv-type.
struct ModelFlags {
  std::string model;
  int ctx = 0;
  int threads = 0;
  std::string kv_type = "f16";
  bool no_repack = false;

  /// Adds the flags to a command.
  void add_to(CLI::App& command);
  /// Adds --no-repack to a command that runs long enough for packed weights to pay (its options say
  /// so).
  void add_repack_to(CLI::App& command);
  /// Finds and opens the model; shows on a terminal that it is being opened.
  Result<std::unique_ptr<engine::Engine>> open(engine::EngineOptions options = {}) const;
};

/// The file of MODEL (path, store name, hf:...); of no MODEL the default one.
Result<std::string> model_path(const std::string& model);

/// Whether the user pressed Ctrl-C. The first time work stops cleanly; the second time ends the
/// program.
bool interrupted();
/// The error of a command that the user stopped.
Error interruption();
/// Work goes on after a Ctrl-C that was answered (chat).
void clear_interrupt();

/// "1,2,3" -> ids. Usage error naming what is no id.
Result<std::vector<int32_t>> parse_ids(std::string_view text);
/// All of stdin, up to kMaxTextBytes.
Result<std::string> read_stdin();
/// A text for a model: the file, or stdin where none is named; as_utf8, at most kMaxTextBytes.
Result<std::string> read_text(const std::optional<std::string>& file);
/// The text with U+FFFD for what is not UTF-8, as the tokenizer reads it; a warning says where the
/// first such byte is. `what` names the text ("the prompt").
std::string as_utf8(std::string_view what, std::string text);
/// Whether what was read from stdin through streams is all there was.
Result<void> check_stdin();
/// Calls `each` with every line of stdin, without its end; stops at its error.
Result<void> for_each_line(const std::function<Result<void>(std::string_view)>& each);
/// Writes to stdout at once; kFailed where that cannot be done (a closed pipe, a full disk).
Result<void> print(std::string_view text);
/// Writes to stderr. One that is closed or full stops nothing: the result is on stdout, and the
/// exit code says the rest.
void write_stderr(std::string_view text);
template <class... T>
void say(fmt::format_string<T...> format, T&&... values) {
  write_stderr(fmt::format(format, std::forward<T>(values)...));
}
/// "error: ..." on stderr, one line. Words of a file may be part of the message: control characters
/// are shown as \xNN, so that a file cannot speak to the terminal.
void print_error(const Error& error);
/// Whether progress may be shown.
bool on_terminal(int fd = 2);

/// Text that is read whole may have this many bytes: more tokens than any context holds.
inline constexpr uint64_t kMaxTextBytes = uint64_t{256} << 20;

}  // namespace ondol::app
