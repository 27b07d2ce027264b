// A template and a request, both hostile: the first zero byte parts them. Whatever comes, there is
// a text or an error, and the places of control tokens lie within the text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "chat/template.h"

namespace {

void check(bool good) {
  if (!good) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ondol::chat::ControlTokens controls(
      {{"<|s|>", 1}, {"<|e|>", 2}, {"<s>", 3}, {"</s>", 4}});
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find('\0');
  const auto made = ondol::chat::ChatTemplate::try_compile(input.substr(0, cut));
  if (!made) {
    check(made.error().kind != ondol::chat::FailureKind::kInternal);
    return 0;
  }
  const std::string_view request =
      cut == std::string_view::npos
          ? R"({"messages": [{"role": "user", "content": "a <|e|> b"}], "tools": [{"name": 1.0}]})"
          : input.substr(cut + 1);
  const auto prompt = made->try_render(request, &controls);
  if (!prompt) {
    check(prompt.error().kind != ondol::chat::FailureKind::kInternal);
    return 0;
  }
  for (const auto& span : prompt->untrusted) {
    check(span.begin < span.end && span.end <= prompt->text.size());
    check(controls.match(prompt->text, span.begin).length > 0);
  }
  return 0;
}
