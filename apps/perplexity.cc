// perplexity: how well a model predicts a text.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <cmath>

#include "common.h"

namespace ondol::app {
namespace {

struct PerplexityFlags {
  ModelFlags model;
  std::optional<std::string> file;
  bool json = false;
};

/// Negative log-likelihood of `token` under the softmax of `logits`, in double precision.
double surprise(std::span<const float> logits, int32_t token) {
  double highest = -INFINITY;
  for (const float value : logits) highest = std::max(highest, static_cast<double>(value));
  double sum = 0;
  for (const float value : logits) sum += std::exp(static_cast<double>(value) - highest);
  return std::log(sum) + highest - static_cast<double>(logits[static_cast<size_t>(token)]);
}

struct Total {
  double nll = 0;
  uint64_t n = 0;
};

/// Adds up one window of the text: each token but the first is predicted from those before it.
Result<void> add_window(engine::Engine& engine, std::span<const int32_t> tokens, Total& total) {
  return engine.evaluate(tokens, [&](int first, kernels::Rows logits) -> Result<void> {
    if (interrupted()) return std::unexpected(interruption());
    for (int i = 0; i < logits.n; ++i) {
      const auto next = static_cast<size_t>(first + i) + 1;
      if (next >= tokens.size()) continue;
      const double nll = surprise({logits.row(i), static_cast<size_t>(logits.width)}, tokens[next]);
      if (!std::isfinite(nll)) {
        return refused(
            fmt::format("the model gives no probability after token {} of this part of the text: "
                        "its logits are "
                        "not finite; check the model file with `ondol verify`",
                        first + i));
      }
      total.nll += nll;
      ++total.n;
    }
    if (on_terminal() && total.n > 0) {
      say("\r{} tokens, perplexity {:.4f} ", total.n,
          std::exp(total.nll / static_cast<double>(total.n)));
    }
    return {};
  });
}

Result<void> perplexity(const PerplexityFlags& flags) {
  const auto text = read_text(flags.file);
  if (!text) return propagate(text);
  const auto engine = flags.model.open();
  if (!engine) return propagate(engine);
  const auto tokens =
      (*engine)->tokenizer().encode(*text, {.add_special = true, .parse_special = false});
  if (tokens.size() < 2)
    return usage_error("the text has fewer than two tokens: there is nothing to predict");
  if ((*engine)->n_ctx() < 2)
    return usage_error("a context of one token predicts nothing; choose --ctx 2 or more");
  Total total;
  const auto window = static_cast<size_t>((*engine)->n_ctx());
  for (size_t first = 0; first < tokens.size(); first += window) {
    const auto part = std::span(tokens).subspan(first, std::min(window, tokens.size() - first));
    if (const auto done = add_window(**engine, part, total); !done) return done;
  }
  if (on_terminal()) say("\n");
  const double mean = total.nll / static_cast<double>(total.n);
  if (!flags.json) {
    return print(
        fmt::format("perplexity {:.4f} (mean negative log-likelihood {:.6f} over {} tokens)\n",
                    std::exp(mean), mean, total.n));
  }
  const boost::json::object report{{"model", (*engine)->file().path()},
                                   {"nll_mean", mean},
                                   {"nll_sum", total.nll},
                                   {"perplexity", std::exp(mean)},
                                   {"tokens", total.n}};
  return print(boost::json::serialize(report) + "\n");
}

}  // namespace

void add_perplexity(CLI::App& app, int& exit_code) {
  auto& sub =
      command(app, "perplexity",
              "How well a model predicts a text: mean negative log-likelihood and perplexity",
              "ondol perplexity smollm2 -f book.txt");
  auto flags = std::make_shared<PerplexityFlags>();
  flags->model.add_to(sub);
  sub.add_option(
      "-f,--file", flags->file,
      "The text, UTF-8 up to 256 MiB (default: stdin); texts longer than the context are "
      "cut in windows");
  sub.add_flag("--json", flags->json, "One JSON object");
  on_chosen(sub, exit_code, [flags] { return perplexity(*flags); });
}

}  // namespace ondol::app
