// show, verify: what a model file says of itself, and whether it is whole.
#include <fmt/format.h>

#include "common.h"
#include "gguf/describe.h"
#include "gguf/verify.h"

namespace ondol::app {
namespace {

struct ShowFlags {
  std::string model;
  gguf::ShowOptions show;
  bool json = false;
};

Result<void> show(const ShowFlags& flags) {
  const auto path = model_path(flags.model);
  if (!path) return propagate(path);
  const auto description = gguf::describe(Env::real(), *path);
  if (!description) return propagate(description);
  return print(flags.json ? gguf::to_json(*description, flags.show) + "\n"
                          : gguf::to_text(*description, flags.show));
}

struct VerifyFlags {
  std::string model;
  std::vector<std::string> expected;
  bool json = false;
};

Result<void> verify(const VerifyFlags& flags) {
  const auto path = model_path(flags.model);
  if (!path) return propagate(path);
  gguf::VerifyOptions options{.expected = flags.expected};
  options.progress = [](uint64_t done, uint64_t total) {
    if (on_terminal() && total > 0) say("\rreading {} % ", done * 100 / total);
    return !interrupted();
  };
  const auto verification = gguf::verify(Env::real(), *path, options);
  if (on_terminal()) say("\n");
  if (!verification) return propagate(verification);
  const auto text = flags.json ? gguf::to_json(*verification) + "\n" : gguf::to_text(*verification);
  if (const auto printed = print(text); !printed) return printed;
  return verification->verdict();
}

}  // namespace

void add_show(CLI::App& app, int& exit_code) {
  auto& sub = command(
      app, "show",
      "What a model file is: architecture, sizes, quantisation, context, tokenizer, template",
      "ondol show smollm2");
  auto flags = std::make_shared<ShowFlags>();
  sub.add_option("model", flags->model, "A GGUF file or a name in the store");
  sub.add_flag("--metadata", flags->show.metadata, "List every key and value");
  sub.add_flag("--tensors", flags->show.tensors, "List every tensor");
  sub.add_flag("--template", flags->show.chat_template, "Print the chat template");
  sub.add_flag("--json", flags->json, "One JSON object");
  on_chosen(sub, exit_code, [flags] { return show(*flags); });
}

void add_verify(CLI::App& app, int& exit_code) {
  auto& sub = command(app, "verify", "Checks a model file's structure and its SHA-256",
                      "ondol verify smollm2");
  auto flags = std::make_shared<VerifyFlags>();
  sub.add_option("model", flags->model, "A GGUF file or a name in the store");
  sub.add_option("--sha256", flags->expected,
                 "The sum it must have; one for each part of a split file");
  sub.add_flag("--json", flags->json, "One JSON object");
  on_chosen(sub, exit_code, [flags] { return verify(*flags); });
}

}  // namespace ondol::app
