#include "engine/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <system_error>

#include "kernels/cpu_ops.h"

namespace ondol::engine {
namespace {

/// Lays the layers of each group one behind the other within a page.
std::vector<KvLayer> lay_out(const model::CacheSpec& cache, const MemoryShape& shape) {
  std::vector<size_t> used(cache.groups.size(), 0);
  std::vector<KvLayer> layers;
  for (const auto& layer : cache.layers) {
    size_t& offset = used[static_cast<size_t>(layer.group)];
    const auto rows = static_cast<size_t>(layer.n_head_kv) * kPageTokens;
    const size_t k_bytes = rows * kv_row_bytes(shape.type_k, layer.head_dim_k);
    const size_t v_bytes = rows * kv_row_bytes(shape.type_v, layer.head_dim_v);
    layers.push_back({.group = layer.group,
                      .k_offset = offset,
                      .v_offset = offset + k_bytes,
                      .n_head_kv = layer.n_head_kv,
                      .head_dim_k = layer.head_dim_k,
                      .head_dim_v = layer.head_dim_v});
    offset += k_bytes + v_bytes;
  }
  return layers;
}

Result<void> check_types(const model::CacheSpec& cache, const MemoryShape& shape) {
  for (const auto& layer : cache.layers) {
    const bool k_fits = shape.type_k != KvType::kQ8_0 || layer.head_dim_k % 32 == 0;
    const bool v_fits = shape.type_v != KvType::kQ8_0 || layer.head_dim_v % 32 == 0;
    if (!k_fits || !v_fits) {
      return usage_error(fmt::format(
          "--kv-type q8_0 needs heads of a multiple of 32 values, this model's have {} and {}",
          layer.head_dim_k, layer.head_dim_v));
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Runner>> Runner::create(std::shared_ptr<const model::Model> model,
                                               const MemoryShape& shape, simd::Isa isa,
                                               int threads) {
  if (const auto usable = check_types(model->cache(), shape); !usable) return propagate(usable);
  std::vector<kv::Group> groups;
  const auto n_pages = pool_pages(model->cache(), shape);
  if (!n_pages) return propagate(n_pages);
  for (const kv::GroupShape& group : group_shapes(model->cache())) {
    const uint64_t pages = (*n_pages)[groups.size()];
    if (pages >= std::numeric_limits<uint32_t>::max())
      return no_memory("the KV cache would have too many pages");
    auto pool = kv::PagePool::create(page_bytes(group, shape), static_cast<uint32_t>(pages));
    if (!pool) return propagate(pool);
    groups.push_back({.pool = std::move(*pool), .window = group.window});
  }
  try {
    return std::unique_ptr<Runner>(
        new Runner(std::move(model), shape, std::move(groups), isa, threads));
  } catch (const std::system_error& error) {  // of std::thread
    return no_memory(fmt::format("{} threads cannot be started: {}; choose fewer with --threads",
                                 threads, error.code().message()));
  }
}

Runner::Runner(std::shared_ptr<const model::Model> model, const MemoryShape& shape,
               std::vector<kv::Group> groups, simd::Isa isa, int threads)
    : model_(std::move(model)),
      shape_(shape),
      team_(threads),
      ops_(kernels::make_cpu_ops(isa, team_)),
      groups_(std::move(groups)),
      kv_layers_(lay_out(model_->cache(), shape)) {
  for (const kv::Group& group : groups_) {
    kv_groups_.push_back({.base = group.pool.base(), .page_bytes = group.pool.page_bytes()});
  }
}

void Runner::copy_page(int group, kv::PageId from, kv::PageId to) {
  const kv::PagePool& pool = groups_[static_cast<size_t>(group)].pool;
  std::memcpy(pool.base() + to * pool.page_bytes(), pool.base() + from * pool.page_bytes(),
              pool.page_bytes());
}

int Runner::capacity() const {
  int tokens = shape_.n_ctx;
  for (const kv::Group& group : groups_)
    tokens = std::min(tokens, pool_capacity(group.window, group.pool.n_pages(), shape_));
  return tokens;
}

Result<void> Runner::prepare(std::span<const Piece> pieces) {
  tokens_.clear();
  positions_.clear();
  logit_rows_.clear();
  sequences_.clear();
  page_tables_.assign(pieces.size(), {});
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    const int n = static_cast<int>(piece.tokens.size());
    assert(n > 0 && n <= shape_.max_chunk && piece.first_pos + n <= shape_.n_ctx &&
           piece.n_logits <= n);
    piece.pages->drop_behind(piece.first_pos);
    if (const auto room = piece.pages->extend(piece.first_pos + n); !room) return room;
    for (size_t g = 0; g < groups_.size(); ++g)
      page_tables_[i].push_back(piece.pages->table(static_cast<int>(g)));
    const int first_row = static_cast<int>(tokens_.size());
    sequences_.push_back({.first_row = first_row,
                          .n_rows = n,
                          .first_pos = piece.first_pos,
                          .page_tables = page_tables_[i]});
    for (int row = 0; row < n; ++row) {
      tokens_.push_back(piece.tokens[static_cast<size_t>(row)]);
      positions_.push_back(piece.first_pos + row);
      if (row >= n - piece.n_logits) logit_rows_.push_back(first_row + row);
    }
  }
  assert(static_cast<int>(tokens_.size()) <= shape_.max_rows);
  return {};
}

Result<kernels::Rows> Runner::run(std::span<const Piece> pieces) {
  if (const auto ready = prepare(pieces); !ready) return propagate(ready);
  const int n_vocab = model_->config().n_vocab;
  const size_t n_logits = logit_rows_.size();
  if (logits_.size() < n_logits * static_cast<size_t>(n_vocab))
    logits_.resize(n_logits * static_cast<size_t>(n_vocab));
  const kernels::Rows logits{logits_.data(), static_cast<int>(n_logits), n_vocab, n_vocab};
  const model::Batch batch{.tokens = tokens_, .positions = positions_, .logit_rows = logit_rows_};
  const KvView kv{.type_k = shape_.type_k,
                  .type_v = shape_.type_v,
                  .groups = kv_groups_,
                  .layers = kv_layers_,
                  .sequences = sequences_};
  model_->forward(*ops_, batch, kv, workspace_, logits);
  return logits;
}

Result<void> Runner::check_integrity() const {
  for (const kv::Group& group : groups_) {
    if (auto whole = group.pool.check_integrity(); !whole) return whole;
  }
  return {};
}

}  // namespace ondol::engine
