#include <algorithm>
#include <cassert>

#include "kernels/cpu_ops_impl.h"

namespace ondol::kernels {
namespace {

/// Query vectors that a tile works on at once, where one token's heads are not more already.
constexpr int kTileQueries = 64;
/// Query heads that may share one key/value head (multi-query models have some dozens).
constexpr int kMaxHeadsPerKv = 256;
/// Multiply-adds, in groups of four, below which the team is not woken.
constexpr int64_t kInlineAttentionCost = 16 * 1024;

std::byte* page_address(const KvView& kv, const KvLayer& layer, const KvSequence& sequence,
                        int page) {
  const auto group = static_cast<size_t>(layer.group);
  const uint32_t id = sequence.page_tables[group][static_cast<size_t>(page)];
  assert(id != kNoPage && "a position outside the window was asked for");
  return kv.groups[group].base + size_t{id} * kv.groups[group].page_bytes;
}

}  // namespace

void CpuOps::kv_write(const KvView& kv, int layer_index, Rows k, Rows v) {
  const KvLayer& layer = kv.layers[static_cast<size_t>(layer_index)];
  const size_t k_bytes = kv_row_bytes(kv.type_k, layer.head_dim_k);
  const size_t v_bytes = kv_row_bytes(kv.type_v, layer.head_dim_v);
  for (const KvSequence& sequence : kv.sequences) {
    for_rows({nullptr, sequence.n_rows, k.width, 0}, k.width + v.width, [&](int i) {
      const int position = sequence.first_pos + i;
      std::byte* page = page_address(kv, layer, sequence, position / kPageTokens);
      const int slot = position % kPageTokens;
      for (int h = 0; h < layer.n_head_kv; ++h) {
        const size_t rows = static_cast<size_t>(h) * kPageTokens;
        leaf_.store_key(
            kv.type_k, reinterpret_cast<uint8_t*>(page + layer.k_offset + rows * k_bytes), slot,
            k.row(sequence.first_row + i) + int64_t{h} * layer.head_dim_k, layer.head_dim_k);
        leaf_.store_value(
            kv.type_v, reinterpret_cast<uint8_t*>(page + layer.v_offset + rows * v_bytes), slot,
            v.row(sequence.first_row + i) + int64_t{h} * layer.head_dim_v, layer.head_dim_v);
      }
    });
  }
}

void CpuOps::plan_tiles(const Rows& q, const KvView& kv, int layer_index,
                        const AttentionParams& params) {
  const KvLayer& layer = kv.layers[static_cast<size_t>(layer_index)];
  const int heads = params.n_head / layer.n_head_kv;
  assert(heads * layer.n_head_kv == params.n_head && q.width == params.n_head * layer.head_dim_k);
  assert(heads <= kMaxHeadsPerKv);
  const int tile_rows = std::max(1, kTileQueries / heads);
  tiles_.clear();
  int64_t memory = 0;
  for (const KvSequence& sequence : kv.sequences) {
    for (int first = 0; first < sequence.n_rows; first += tile_rows) {
      for (int head = 0; head < layer.n_head_kv; ++head) {
        AttentionTile tile{.kv = &kv,
                           .layer = &layer,
                           .params = &params,
                           .sequence = &sequence,
                           .kv_head = head,
                           .heads = heads,
                           .first_row = sequence.first_row + first,
                           .n_rows = std::min(tile_rows, sequence.n_rows - first),
                           .first_pos = sequence.first_pos + first,
                           .first_chunk = 0,
                           .end_chunk = 0,
                           .memory = memory,
                           .q = q,
                           .out = {}};
        tile.first_chunk = tile.lo(0) / kChunkTokens;
        tile.end_chunk = (tile.hi(tile.n_rows - 1) + kChunkTokens - 1) / kChunkTokens;
        memory += tile.packed() + tile.partials() * (tile.end_chunk - tile.first_chunk);
        tiles_.push_back(tile);
      }
    }
  }
}

void CpuOps::pack_tile(const AttentionTile& tile, float* packed) const {
  const int dim = tile.layer->head_dim_k;
  const float* queries[kMaxHeadsPerKv];
  for (int row = 0; row < tile.n_rows; ++row) {
    for (int h = 0; h < tile.heads; ++h)
      queries[row * tile.heads + h] =
          tile.q.row(tile.first_row + row) + int64_t{tile.kv_head * tile.heads + h} * dim;
  }
  leaf_.pack_queries(tile.kv->type_k, queries, tile.queries(), dim, packed);
}

void CpuOps::attend_chunk(const AttentionTile& tile, int chunk, const float* packed,
                          float* partials, float* scratch) const {
  const KvView& kv = *tile.kv;
  const KvLayer& layer = *tile.layer;
  const int start = chunk * kChunkTokens;
  AttentionQuery queries[kMaxHeadsPerKv];
  for (int row = 0; row < tile.n_rows; ++row) {
    for (int h = 0; h < tile.heads; ++h) {
      queries[row * tile.heads + h] = {.lo = std::clamp(tile.lo(row) - start, 0, kChunkTokens),
                                       .hi = std::clamp(tile.hi(row) - start, 0, kChunkTokens)};
    }
  }
  AttentionTask task{.type_k = kv.type_k,
                     .type_v = kv.type_v,
                     .dim_k = layer.head_dim_k,
                     .dim_v = layer.head_dim_v,
                     .scale = tile.params->scale,
                     .softcap = tile.params->softcap,
                     .queries = queries,
                     .n_queries = tile.queries(),
                     .packed = packed,
                     .partials = partials,
                     .scratch = scratch};
  const auto head = static_cast<size_t>(tile.kv_head) * kPageTokens;
  const int first_page = std::max(tile.lo(0), start) / kPageTokens;
  const int end_page =
      (std::min(tile.hi(tile.n_rows - 1), start + kChunkTokens) + kPageTokens - 1) / kPageTokens;
  for (int page = first_page; page < end_page; ++page) {
    const std::byte* base = page_address(kv, layer, *tile.sequence, page);
    const int slot = page - chunk * kChunkPages;
    task.k_pages[slot] = reinterpret_cast<const uint8_t*>(
        base + layer.k_offset + head * kv_row_bytes(kv.type_k, layer.head_dim_k));
    task.v_pages[slot] = reinterpret_cast<const uint8_t*>(
        base + layer.v_offset + head * kv_row_bytes(kv.type_v, layer.head_dim_v));
  }
  leaf_.attend(task);
}

void CpuOps::finish_tile(const AttentionTile& tile, const float* partials) const {
  const int dim = tile.layer->head_dim_v;
  for (int row = 0; row < tile.n_rows; ++row) {
    for (int h = 0; h < tile.heads; ++h) {
      const int head = tile.kv_head * tile.heads + h;
      const float* sink = tile.params->sinks != nullptr ? tile.params->sinks + head : nullptr;
      leaf_.finish(tile.out.row(tile.first_row + row) + int64_t{head} * dim,
                   partials + (row * tile.heads + h) * partial_floats(dim), dim, sink);
    }
  }
}

/// All chunks of a tile one after the other, merged as they come. `memory` holds two sets of
/// partials, the packed queries and the scratch.
void CpuOps::attend_whole(const AttentionTile& tile, float* memory) const {
  const int64_t size = partial_floats(tile.layer->head_dim_v);
  float* total = memory;
  float* part = memory + tile.partials();
  float* packed = part + tile.partials();
  float* scratch = packed + tile.packed();
  pack_tile(tile, packed);
  attend_chunk(tile, tile.first_chunk, packed, total, scratch);
  for (int chunk = tile.first_chunk + 1; chunk < tile.end_chunk; ++chunk) {
    attend_chunk(tile, chunk, packed, part, scratch);
    for (int i = 0; i < tile.queries(); ++i)
      leaf_.merge(total + i * size, part + i * size, tile.layer->head_dim_v);
  }
  finish_tile(tile, total);
}

void CpuOps::attention(Rows out, Rows q, const KvView& kv, int layer_index,
                       const AttentionParams& params) {
  plan_tiles(q, kv, layer_index, params);
  if (tiles_.empty()) return;
  int64_t chunks = 0;
  int64_t partials = 0;
  int queries = 0;
  int64_t cost = 0;
  for (AttentionTile& tile : tiles_) {
    tile.out = out;
    chunks += tile.end_chunk - tile.first_chunk;
    queries = std::max(queries, tile.queries());
    partials = std::max(partials, tile.partials());
    cost += int64_t{tile.queries()} * (tile.hi(tile.n_rows - 1) - tile.lo(0)) *
            tile.layer->head_dim_k / 4;
  }
  const KvLayer& layer = *tiles_[0].layer;
  const int64_t scratch = attention_scratch_floats(queries, layer.head_dim_k, layer.head_dim_v);
  const int64_t per_thread = 2 * partials + packed_floats(queries, layer.head_dim_k) + scratch;
  const auto count = static_cast<int64_t>(tiles_.size());
  const bool alone = team_.size() == 1 || cost <= kInlineAttentionCost;
  const bool spread = !alone && chunks > count && count < 4 * team_.size();
  const AttentionTile& last = tiles_.back();
  const int64_t shared =
      spread ? last.memory + last.packed() + last.partials() * (last.end_chunk - last.first_chunk)
             : 0;
  const auto needed = static_cast<size_t>(shared + per_thread * team_.size());
  float* const memory = aligned_memory(needed);
  float* const own = memory + shared;
  if (alone) {
    for (const AttentionTile& tile : tiles_) attend_whole(tile, own);
    return;
  }
  if (!spread) {
    // The last tiles of a prompt see the most: they go first, so that the threads end together.
    team_.parallel_for(count, [&](int64_t i, int thread) {
      attend_whole(tiles_[static_cast<size_t>(count - 1 - i)], own + thread * per_thread);
    });
    return;
  }
  attend_spread(chunks, memory, own, per_thread);
}

/// Room for `count` floats that begins where a vector does.
float* CpuOps::aligned_memory(size_t count) {
  constexpr size_t kVectorBytes = 64;
  const size_t room = count + kVectorBytes / sizeof(float);
  if (attention_memory_.size() < room) attention_memory_.resize(room);
  const auto address = reinterpret_cast<uintptr_t>(attention_memory_.data());
  return attention_memory_.data() + (-address % kVectorBytes) / sizeof(float);
}

/// Few tiles with long contexts: every chunk is a piece of work of its own, merged at the end.
void CpuOps::attend_spread(int64_t chunks, float* memory, float* own, int64_t per_thread) {
  for (const AttentionTile& tile : tiles_) pack_tile(tile, memory + tile.memory);
  team_.parallel_for(chunks, [&](int64_t i, int thread) {
    size_t t = 0;
    while (i >= tiles_[t].end_chunk - tiles_[t].first_chunk) {
      i -= tiles_[t].end_chunk - tiles_[t].first_chunk;
      ++t;
    }
    const AttentionTile& tile = tiles_[t];
    const float* packed = memory + tile.memory;
    attend_chunk(tile, tile.first_chunk + static_cast<int>(i), packed,
                 memory + tile.memory + tile.packed() + i * tile.partials(),
                 own + thread * per_thread);
  });
  for (const AttentionTile& tile : tiles_) {
    const int64_t size = partial_floats(tile.layer->head_dim_v);
    float* total = memory + tile.memory + tile.packed();
    for (int chunk = 1; chunk < tile.end_chunk - tile.first_chunk; ++chunk) {
      const float* part = total + chunk * tile.partials();
      for (int i = 0; i < tile.queries(); ++i)
        leaf_.merge(total + i * size, part + i * size, tile.layer->head_dim_v);
    }
    finish_tile(tile, total);
  }
}

}  // namespace ondol::kernels
