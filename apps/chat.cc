// chat: a conversation on the terminal, with line editing and history.
#include <fmt/format.h>
#include <histedit.h>
#include <unistd.h>

#include <iostream>
#include <memory>

#include "answer.h"
#include "common.h"

namespace ondol::app {
namespace {

constexpr const char* kHelp =
    "/help      this list\n"
    "/clear     start a new conversation\n"
    "/system T  set the system prompt and start anew\n"
    "/quit      end (also Ctrl-D); Ctrl-C stops an answer\n";

/// Lines from the terminal with editing and history, or plainly from a pipe.
class LineReader {
 public:
  LineReader() {
    if (!on_terminal(STDIN_FILENO)) return;
    edit_.reset(el_init("ondol", stdin, stdout, stderr));
    history_.reset(history_init());
    if (!edit_ || !history_) return;
    HistEvent event;
    history(history_.get(), &event, H_SETSIZE, 1000);
    el_set(edit_.get(), EL_PROMPT, +[](EditLine*) -> const char* { return "> "; });
    el_set(edit_.get(), EL_EDITOR, "emacs");
    el_set(edit_.get(), EL_HIST, history, history_.get());
    el_set(edit_.get(), EL_SIGNAL, 1);
  }

  /// The next line without its end; empty at the end of the input.
  std::optional<std::string> next() {
    std::string line;
    if (!edit_) return std::getline(std::cin, line) ? std::optional(line) : std::nullopt;
    int count = 0;
    const char* text = el_gets(edit_.get(), &count);
    if (text == nullptr || count <= 0) return std::nullopt;
    HistEvent event;
    history(history_.get(), &event, H_ENTER, text);
    line.assign(text, static_cast<size_t>(count));
    while (line.ends_with('\n')) line.pop_back();
    return line;
  }

 private:
  std::unique_ptr<EditLine, void (*)(EditLine*)> edit_{nullptr, el_end};
  std::unique_ptr<History, void (*)(History*)> history_{nullptr, history_end};
};

struct ChatFlags {
  ModelFlags model;
  SamplingFlags sampling;
  std::string system;
};

/// One question and its answer. An answer that the user stopped is kept as far as it came.
Result<void> answer(engine::Engine& engine, Conversation& conversation, const ChatFlags& flags,
                    const std::string& question) {
  auto ids = conversation.ask(question);
  if (!ids) return propagate(ids);
  auto request = flags.sampling.request();
  request.prompt = std::move(*ids);
  std::string text;
  engine::GenerateOptions options{.stops = flags.sampling.stops, .interrupted = interrupted};
  options.on_text = [&](std::string_view part) {
    text += part;
    return print(part);
  };
  const auto answered = engine::generate(Env::real(), engine, std::move(request), options);
  if (const auto ended = print("\n"); !ended) return ended;
  if (!answered && answered.error().kind != ErrorKind::kInterrupted) return propagate(answered);
  conversation.keep(question, text);
  if (answered && on_terminal()) say("{}\n", speed_line(*answered));
  clear_interrupt();
  return {};
}

Result<void> chat(const ChatFlags& flags) {
  const auto engine = flags.model.open({.repack = true});
  if (!engine) return propagate(engine);
  auto conversation = Conversation::make(**engine, as_utf8("the system prompt", flags.system));
  if (!conversation) return propagate(conversation);
  LineReader lines;
  if (on_terminal()) say("/help lists the commands\n");
  while (auto line = lines.next()) {
    *line = as_utf8("the line", std::move(*line));
    if (line->empty()) continue;
    if (*line == "/quit" || *line == "/exit") break;
    if (*line == "/help") {
      say("{}", kHelp);
    } else if (*line == "/clear") {
      conversation->clear();
    } else if (line->starts_with("/system ")) {
      conversation->set_system(line->substr(8));
    } else if (line->starts_with('/')) {
      say("unknown command {}; /help lists them\n", *line);
    } else if (const auto done = answer(**engine, *conversation, flags, *line); !done) {
      // A question that does not fit does not end the conversation.
      if (done.error().kind != ErrorKind::kUsage) return done;
      print_error(done.error());
    }
  }
  return check_stdin();
}

}  // namespace

void add_chat(CLI::App& app, int& exit_code) {
  auto& sub = command(app, "chat", "A conversation; /help lists its commands",
                      "ondol chat smollm2 --system \"Be brief.\"");
  auto flags = std::make_shared<ChatFlags>();
  flags->model.add_to(sub);
  flags->model.add_repack_to(sub);
  sub.add_option("--system", flags->system, "The system prompt");
  flags->sampling.add_to(sub);
  on_chosen(sub, exit_code, [flags] { return chat(*flags); });
}

}  // namespace ondol::app
