// Whatever a stranger can put into a request's head, and whatever stands in a key file: no crash,
// and what is accepted holds what it promises. The first byte says which.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "serve/api_keys.h"
#include "serve/http_rules.h"

using namespace ondol::serve;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void fuzz_target_text(std::string_view text) {
  const auto target = parse_target(text);
  if (!target) return;
  require(target->path == "*" || target->path.starts_with('/'));
  for (const char c : target->path) require(!(c >= 0 && c < ' '));
}

void fuzz_keys(std::string_view text) {
  const auto keys = ApiKeys::parse(text, "file");
  if (!keys) {
    require(!keys.error().message.empty());
    return;
  }
  const size_t colon = text.find(':');
  if (colon != std::string_view::npos) (void)keys->find(text.substr(colon + 1));
}

/// Lines "name: value" as a head; the first line is the method and the target.
void fuzz_head(std::string_view text) {
  RequestHead head{"POST", "/", 11, {}};
  bool first = true;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const size_t split = line.find(first ? " " : ": ");
    const std::string_view left = line.substr(0, split);
    const std::string_view right =
        split == std::string_view::npos ? std::string_view() : line.substr(split + 1 + !first);
    if (first) {
      head.method = left;
      head.target = right;
    } else {
      head.headers.emplace_back(lower(left), right);
    }
    first = false;
  }
  (void)check_head(head);
  const auto target = parse_target(head.target);
  if (!target) return;
  HttpOptions options;
  options.cors_origins = {"https://app.example"};
  std::string client;
  if (const auto refusal = check_policy(options, nullptr, head, *target, client)) {
    (void)error_body(refusal->status, refusal->message, refusal->code);
  }
  const std::string answer = response_head(200, options_headers(options.cors_origins, head), {});
  // One head, one empty line: nothing of the request splits it.
  require(answer.find("\r\n\r\n") == answer.size() - 4);
  require(response_head(200, head.headers, {}).find("\r\n\r\n") != std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(data + 1, data + size);
  switch (data[0] % 3) {
    case 0:
      fuzz_target_text(text);
      break;
    case 1:
      fuzz_keys(text);
      break;
    default:
      fuzz_head(text);
  }
  return 0;
}
