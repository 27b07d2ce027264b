// tokenize, detokenize: text and ids, one JSON value a line.
#include <fmt/format.h>

#include <boost/json.hpp>

#include "common.h"
#include "tokenizer/utf8.h"

namespace ondol::app {
namespace {

namespace json = boost::json;

struct TokenFlags {
  std::string model;
  bool special = false;
  bool bos = false;
};

Result<std::unique_ptr<const tokenizer::Tokenizer>> open_tokenizer(const std::string& model) {
  const auto path = model_path(model);
  if (!path) return propagate(path);
  const auto file = gguf::File::open(Env::real(), *path);
  if (!file) return propagate(file);
  return tokenizer::Tokenizer::load(*file);
}

Result<json::value> parse_line(std::string_view line, uint64_t number) {
  if (const auto at = tokenizer::ill_formed_at(line))
    return usage_error(
        fmt::format("line {} of stdin is not UTF-8 at byte {}; JSON is", number, *at));
  boost::system::error_code code;
  auto value = json::parse(line, code);
  if (code) {
    return usage_error(fmt::format("line {} of stdin is no JSON: {}; write one JSON value a line",
                                   number, code.message()));
  }
  return value;
}

Result<void> tokenize(const TokenFlags& flags) {
  const auto tokenizer = open_tokenizer(flags.model);
  if (!tokenizer) return propagate(tokenizer);
  uint64_t number = 0;
  return for_each_line([&](std::string_view line) -> Result<void> {
    const auto value = parse_line(line, ++number);
    if (!value) return propagate(value);
    if (!value->is_string())
      return usage_error(fmt::format("line {} of stdin is no JSON string", number));
    auto ids = (*tokenizer)
                   ->encode(value->as_string(),
                            {.add_special = flags.bos, .parse_special = flags.special});
    // Asked for, it comes also where the model's own rule would leave it away.
    const auto bos = (*tokenizer)->bos();
    if (flags.bos && bos && (ids.empty() || ids.front() != *bos)) ids.insert(ids.begin(), *bos);
    return print(json::serialize(json::value_from(ids)) + "\n");
  });
}

Result<void> detokenize(const TokenFlags& flags) {
  const auto tokenizer = open_tokenizer(flags.model);
  if (!tokenizer) return propagate(tokenizer);
  uint64_t number = 0;
  return for_each_line([&](std::string_view line) -> Result<void> {
    const auto value = parse_line(line, ++number);
    if (!value) return propagate(value);
    const auto ids = json::try_value_to<std::vector<int32_t>>(*value);
    if (!ids) return usage_error(fmt::format("line {} of stdin is no list of token ids", number));
    for (const int32_t id : *ids) {
      if (id < 0 || id >= (*tokenizer)->n_tokens()) {
        return usage_error(fmt::format("line {} of stdin: the vocabulary of {} has no token {}",
                                       number, (*tokenizer)->n_tokens(), id));
      }
    }
    return print(
        json::serialize(json::string(tokenizer::decode(**tokenizer, *ids, flags.special))) + "\n");
  });
}

}  // namespace

void add_tokenize(CLI::App& app, int& exit_code) {
  auto& sub =
      command(app, "tokenize", "Text to token ids: a JSON string a line in, an id array a line out",
              "echo '\"Hello world\"' | ondol tokenize smollm2");
  auto flags = std::make_shared<TokenFlags>();
  sub.add_option("model", flags->model, "A GGUF file or a name in the store");
  sub.add_flag("--special", flags->special,
               "Read control tokens written out in the text (trusted text only)");
  sub.add_flag("--bos", flags->bos,
               "Put BOS in front, and EOS at the end where the model wants it");
  on_chosen(sub, exit_code, [flags] { return tokenize(*flags); });
}

void add_detokenize(CLI::App& app, int& exit_code) {
  auto& sub = command(app, "detokenize",
                      "Token ids to text: an id array a line in, a JSON string a line out",
                      "echo '[19556, 905]' | ondol detokenize smollm2");
  auto flags = std::make_shared<TokenFlags>();
  flags->special = true;
  sub.add_option("model", flags->model, "A GGUF file or a name in the store");
  sub.add_flag("--special,!--no-special", flags->special,
               "Write control tokens out (the default) or leave them away");
  on_chosen(sub, exit_code, [flags] { return detokenize(*flags); });
}

}  // namespace ondol::app
