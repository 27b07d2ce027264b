// render: conversations through a chat template, one JSON object a line.
#include <fmt/format.h>

#include "chat/template.h"
#include "common.h"

namespace ondol::app {
namespace {

struct RenderFlags {
  std::string model;
  std::string file;
};

Result<chat::ChatTemplate> open_template(const RenderFlags& flags) {
  if (!flags.file.empty()) {
    constexpr uint64_t kMaxTemplateBytes = 16u << 20;
    const auto source = Env::real().read_text(flags.file, kMaxTemplateBytes);
    if (!source) return propagate(source);
    return chat::ChatTemplate::compile(*source);
  }
  const auto path = model_path(flags.model);
  if (!path) return propagate(path);
  const auto file = gguf::File::open(Env::real(), *path);
  if (!file) return propagate(file);
  return chat::ChatTemplate::of_model(*file);
}

}  // namespace

void add_render(CLI::App& app, int& exit_code) {
  auto& sub = command(
      app, "render",
      "Messages to the prompt a model sees: a JSON object a line in, a JSON string a line out",
      "echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}' | ondol render smollm2");
  auto flags = std::make_shared<RenderFlags>();
  auto* model = sub.add_option("model", flags->model, "A GGUF file or a name in the store");
  sub.add_option("--template", flags->file, "A template file, instead of a model's")
      ->excludes(model);
  on_chosen(sub, exit_code, [flags]() -> Result<void> {
    const auto chat_template = open_template(*flags);
    if (!chat_template) return propagate(chat_template);
    return for_each_line([&](std::string_view line) {
      return print(chat::render_line(*chat_template, line) + "\n");
    });
  });
}

}  // namespace ondol::app
