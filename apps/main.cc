// The command line: adds every command, parses, reports.
#include <fcntl.h>
#include <fmt/format.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <vector>

#include "base/log.h"
#include "base/units.h"
#include "common.h"

namespace {

using namespace ondol;

constexpr std::array<app::AddCommand, 14> kCommands = {
    app::add_run,    app::add_chat,       app::add_pull,     app::add_list,       app::add_show,
    app::add_verify, app::add_rm,         app::add_tokenize, app::add_detokenize, app::add_render,
    app::add_logits, app::add_perplexity, app::add_bench,    app::add_serve};

/// The deepest command that was chosen: its options are the ones meant.
const CLI::App& chosen(const CLI::App& app) {
  const auto subs = app.get_subcommands();
  return subs.empty() ? app : chosen(*subs.front());
}

/// "ondol bench speed"
std::string path_of(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name()
                                     : path_of(*app.get_parent()) + " " + app.get_name();
}

/// One line for a mistake on the command line, with the nearest name that exists.
int report_usage(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& where = chosen(app);
  std::vector<std::string> known;
  for (const CLI::App* sub : where.get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(sub->get_name());
  for (const CLI::Option* option : where.get_options()) {
    for (const auto& name : option->get_lnames()) known.push_back("--" + name);
  }
  const std::vector<std::string_view> names(known.begin(), known.end());
  std::string message = error.what();
  const auto extras = app.remaining(true);
  if (!extras.empty()) {
    const std::string word = extras.front().substr(0, extras.front().find('='));
    const std::string_view near = nearest_name(word, names);
    message = fmt::format("unknown {} '{}'", word.starts_with('-') ? "option" : "word", word);
    if (!near.empty()) message += fmt::format("; did you mean {}?", near);
  }
  const std::string help =
      where.get_parent() == nullptr ? "ondol --help" : path_of(where) + " --help";
  app::say("error: {} (see {})\n", message, help);
  return 2;
}

/// A stream that the caller closed stays unusable, but its number is taken: no file that is opened
/// later can get what was meant for the stream.
void occupy_standard_streams() {
  for (const int fd : {0, 1, 2}) {
    if (fcntl(fd, F_GETFD) == -1) open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a limit of file sizes becomes an error of the write
  CLI::App app(
      "Ondol: a local LLM serving engine whose KV cache is kept, found again and accounted for.",
      "ondol");
  app.set_version_flag("--version", "ondol " ONDOL_VERSION);
  bool verbose = false;
  app.add_flag("-v,--verbose", verbose, "Say more on stderr");
  app.parse_complete_callback(
      [&] { init_log(verbose ? spdlog::level::debug : spdlog::level::warn); });
  app.footer(
      "Example: ondol run smollm2 -p \"Why is the sky blue?\"\nEvery command has --help with an "
      "example.");
  app.require_subcommand(1);
  int exit_code = 0;
  for (const auto add : kCommands) add(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    return report_usage(app, error);
  } catch (const std::bad_alloc&) {
    app::say("error: out of memory; choose a smaller model or context, or close other programs\n");
    return 4;
  } catch (const std::exception& error) {  // an error of ours: nothing that a user can do about it
    app::say("error: {}\n", error.what());
    return 1;
  }
  return exit_code;
}
