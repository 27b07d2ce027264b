// Bodies of OpenAI's requests: any bytes become a request or an error that names a field, in
// well-formed UTF-8.
#include <cstdint>
#include <cstdlib>

#include "serve/openai_request.h"
#include "tokenizer/utf8.h"

namespace {

using namespace ondol;

constexpr int kVocab = 1000;

void check(bool good) {
  if (!good) std::abort();
}

template <class T>
void check_outcome(const serve::ApiResult<T>& result) {
  if (!result) {
    check(result.error().status == 400 && !result.error().message.empty());
    check(tokenizer::is_valid_utf8(boost::json::serialize(serve::error_json(result.error()))));
    return;
  }
  const auto& settings = result->settings;
  check(settings.sampling.validate().has_value());
  check(settings.n >= 1 && (settings.max_tokens == -1 || settings.max_tokens >= 1));
  for (const auto& [token, bias] : settings.sampling.logit_bias)
    check(token >= 0 && token < kVocab);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto body = serve::parse_body({reinterpret_cast<const char*>(data), size});
  if (!body) {
    check(tokenizer::is_valid_utf8(boost::json::serialize(serve::error_json(body.error()))));
    return 0;
  }
  check_outcome(serve::parse_chat(*body, kVocab, "reasoning_effort"));
  check_outcome(serve::parse_completion(*body, kVocab));
  return 0;
}
