#include "kv/geometry.h"

#include <algorithm>

namespace ondol::kv {

uint64_t bytes_per_token(const LayerShape& layer, ElementType k, ElementType v) {
  const auto heads = static_cast<uint64_t>(layer.n_head_kv);
  return heads * (k.bytes(static_cast<uint64_t>(layer.head_dim_k)) +
                  v.bytes(static_cast<uint64_t>(layer.head_dim_v)));
}

uint64_t bytes_per_token(const GroupShape& group, ElementType k, ElementType v) {
  uint64_t total = 0;
  for (const LayerShape& layer : group.layers) total += bytes_per_token(layer, k, v);
  return total;
}

uint64_t pages_for(const GroupShape& group, uint64_t n_tokens, uint64_t page_tokens,
                   uint64_t chunk) {
  const uint64_t all = (n_tokens + page_tokens - 1) / page_tokens;
  if (group.window == 0) return all;
  const uint64_t live = static_cast<uint64_t>(group.window) + chunk;
  return std::min(all, (live + page_tokens - 1) / page_tokens + 1);
}

}  // namespace ondol::kv
