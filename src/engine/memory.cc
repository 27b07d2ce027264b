#include "engine/memory.h"

#include <fmt/format.h>

#include <algorithm>

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

uint64_t pool_pages(const kv::GroupShape& group, const MemoryShape& shape) {
  const auto chunk = static_cast<uint64_t>(std::min(shape.max_chunk, shape.max_rows));
  return kv::pages_for(group, static_cast<uint64_t>(shape.n_ctx), kPageTokens, chunk) *
         static_cast<uint64_t>(shape.n_sequences);
}

size_t page_bytes(const kv::GroupShape& group, const MemoryShape& shape) {
  const uint64_t token =
      kv::bytes_per_token(group, element_type(shape.type_k), element_type(shape.type_v));
  return std::max<size_t>(64, (token * kPageTokens + 63) / 64 * 64);
}

MemoryPlan plan_memory(const model::Model& model, uint64_t file_bytes, const MemoryShape& shape) {
  MemoryPlan plan{.weights = file_bytes};
  for (const auto& group : group_shapes(model.cache()))
    plan.kv += pool_pages(group, shape) * page_bytes(group, shape);
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
