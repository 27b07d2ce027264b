#include "engine/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/units.h"

namespace ondol::engine {
namespace {

constexpr int kDefaultContext = 32768;
constexpr int kSmallestContext = 256;
/// Program, tokenizer, tables and what the system keeps for a process.
constexpr uint64_t kFixedBytes = 48u << 20;

}  // namespace

kv::ElementType element_type(KvType type) {
  switch (type) {
    case KvType::kF16:
      return {.block_values = 1, .block_bytes = 2};
    case KvType::kQ8_0:
      return {.block_values = 32, .block_bytes = 34};
    case KvType::kF32:
      return {.block_values = 1, .block_bytes = 4};
  }
  return {};
}

std::vector<kv::GroupShape> group_shapes(const model::CacheSpec& cache) {
  std::vector<kv::GroupShape> groups;
  for (const auto& group : cache.groups) groups.push_back({.window = group.window, .layers = {}});
  for (const auto& layer : cache.layers) {
    groups[static_cast<size_t>(layer.group)].layers.push_back({.n_head_kv = layer.n_head_kv,
                                                               .head_dim_k = layer.head_dim_k,
                                                               .head_dim_v = layer.head_dim_v});
  }
  return groups;
}

namespace {

uint64_t chunk(const MemoryShape& shape) {
  return static_cast<uint64_t>(std::min(shape.max_chunk, shape.max_rows));
}

/// Bytes and pages of one sequence of n_tokens alone.
uint64_t sequence_bytes(std::span<const kv::GroupShape> groups, const MemoryShape& shape,
                        uint64_t n_tokens) {
  uint64_t bytes = 0;
  for (const auto& group : groups)
    bytes += kv::pages_for(group, n_tokens, kPageTokens, chunk(shape)) * page_bytes(group, shape);
  return bytes;
}

}  // namespace

Result<std::vector<uint64_t>> pool_pages(const model::CacheSpec& cache, const MemoryShape& shape) {
  const auto groups = group_shapes(cache);
  auto n_tokens = static_cast<uint64_t>(shape.n_ctx);
  const uint64_t whole = sequence_bytes(groups, shape, n_tokens);
  if (shape.kv_ram > 0 && shape.kv_ram < whole) {
    // Pages are steps: the longest sequence whose pages fit.
    uint64_t low = 0;
    for (uint64_t high = n_tokens; low < high;) {
      const uint64_t middle = (low + high + 1) / 2;
      if (sequence_bytes(groups, shape, middle) <= shape.kv_ram) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    n_tokens = low;
  }
  if (n_tokens == 0) {
    return usage_error(
        fmt::format("{} of KV pages hold not a single token, which takes {}; give more with "
                    "--kv-ram",
                    format_size(shape.kv_ram), format_size(sequence_bytes(groups, shape, 1))));
  }
  std::vector<uint64_t> pages;
  for (const auto& group : groups) {
    const uint64_t one = kv::pages_for(group, n_tokens, kPageTokens, chunk(shape));
    const double contexts = shape.kv_ram == 0 ? shape.n_sequences
                            : shape.kv_ram < whole
                                ? 1.0
                                : static_cast<double>(shape.kv_ram) / static_cast<double>(whole);
    pages.push_back(static_cast<uint64_t>(static_cast<double>(one) * contexts));
  }
  return pages;
}

int pool_capacity(int window, uint64_t n_pages, const MemoryShape& shape) {
  const kv::GroupShape group{.window = window, .layers = {}};
  const auto n_ctx = static_cast<uint64_t>(shape.n_ctx);
  if (kv::pages_for(group, n_ctx, kPageTokens, chunk(shape)) <= n_pages) return shape.n_ctx;
  return static_cast<int>(std::min(n_ctx, n_pages * kPageTokens));
}

size_t page_bytes(const kv::GroupShape& group, const MemoryShape& shape) {
  const uint64_t token =
      kv::bytes_per_token(group, element_type(shape.type_k), element_type(shape.type_v));
  return std::max<size_t>(64, (token * kPageTokens + 63) / 64 * 64);
}

MemoryPlan plan_memory(const model::Model& model, uint64_t file_bytes, const MemoryShape& shape) {
  MemoryPlan plan{.weights = file_bytes};
  const auto groups = group_shapes(model.cache());
  const auto pages = pool_pages(model.cache(), shape);
  for (size_t g = 0; pages && g < groups.size(); ++g)
    plan.kv += (*pages)[g] * page_bytes(groups[g], shape);
  const auto vocab = static_cast<uint64_t>(model.config().n_vocab);
  const int logit_rows = std::max(shape.n_sequences, kEvaluateRows);
  const auto logits = static_cast<uint64_t>(logit_rows) * vocab * sizeof(float);
  // The sampler looks at one copy of a row with its ids.
  const auto sampling = vocab * 16;
  const auto activations = model.workspace_floats(shape.max_rows, logit_rows) * sizeof(float);
  // Inputs of products are kept once more, as 8-bit values or floats.
  const auto widest = static_cast<uint64_t>(
      std::max({model.config().n_embd, model.config().n_ff, model.config().attn_width()}));
  const auto scratch = static_cast<uint64_t>(shape.max_rows) * widest * sizeof(float);
  plan.compute = kFixedBytes + logits + sampling + activations + scratch;
  return plan;
}

Result<int> choose_context(const model::Model& model, uint64_t file_bytes, MemoryShape shape,
                           int wished, uint64_t available) {
  const auto fits = [&](int n_ctx) {
    shape.n_ctx = n_ctx;
    return plan_memory(model, file_bytes, shape).total() <= available;
  };
  const int trained = model.config().n_ctx_train;
  int context = wished > 0 ? wished : std::min(trained, kDefaultContext);
  if (fits(context)) return context;
  const uint64_t needs = plan_memory(model, file_bytes, shape).total();
  while (context > kSmallestContext && !fits(context)) context /= 2;
  context = std::max(context, std::min(kSmallestContext, trained));
  if (fits(context) && wished <= 0) return context;
  const std::string advice =
      fits(std::min(context, trained))
          ? fmt::format("--ctx {} would fit", std::min(context, trained))
          : "choose a smaller model or quantisation, or close other programs";
  return no_memory(
      fmt::format("the model would not fit in memory: it needs {}, {} are available; {}",
                  format_size(needs), format_size(available), advice));
}

}  // namespace ondol::engine
