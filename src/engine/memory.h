// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "kernels/kv_view.h"
#include "kv/geometry.h"
#include "model/model.h"

namespace ondol::engine {

/// Rows whose logits are held at once while a whole text is evaluated: a vocabulary of 262k takes 1
/// MiB a row.
inline constexpr int kEvaluateRows = 32;

/// What decides how much memory the engine takes besides the weights.
struct MemoryShape {
  int n_ctx = 0;        ///< tokens of one sequence, prompt and answer
  int n_sequences = 1;  ///< sequences at once
  int max_rows = 512;   ///< rows of one forward pass
  int max_chunk = 512;  ///< rows of one sequence in a pass
  KvType type_k = KvType::kF16;
  KvType type_v = KvType::kF16;
  uint64_t kv_ram = 0;  ///< bytes of KV pages; 0: n_sequences whole contexts
};

/// Bytes, by what they are for.
struct MemoryPlan {
  uint64_t weights = 0;
  uint64_t kv = 0;
  uint64_t compute = 0;  ///< activations, logits, scratch
  uint64_t total() const { return weights + kv + compute; }
};

/// The size of a cached value.
kv::ElementType element_type(KvType type);
/// The model's cache groups, as the cache counts them.
std::vector<kv::GroupShape> group_shapes(const model::CacheSpec& cache);
/// Pages of each group's pool. kv_ram is shared out as whole contexts (and a fraction) need it, or,
/// where it holds less than one, as the longest sequence that fits does. Usage error where that is
/// less than a page of each.
Result<std::vector<uint64_t>> pool_pages(const model::CacheSpec& cache, const MemoryShape& shape);
/// Tokens of the longest sequence that a group's pool of n_pages can hold alone.
int pool_capacity(int window, uint64_t n_pages, const MemoryShape& shape);
/// Bytes of a page of a group, rounded up to a cache line.
size_t page_bytes(const kv::GroupShape& group, const MemoryShape& shape);

/// Bytes that an engine of this shape takes at most; `file_bytes` are the weights.
MemoryPlan plan_memory(const model::Model& model, uint64_t file_bytes, const MemoryShape& shape);

/// The context to use: `wished` if it is above zero (kNoMemory where it does not fit, naming needs,
/// has and the context that would fit), else the model's own up to 32,768, or the largest that fits
/// in `available` bytes.
Result<int> choose_context(const model::Model& model, uint64_t file_bytes, MemoryShape shape,
                           int wished, uint64_t available);

}  // namespace ondol::engine
