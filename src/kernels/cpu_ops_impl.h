// Thread rule: as ops.h.
//
// The CPU's Ops: cpu_ops.cc has the matmul driver and the row-wise operations, cpu_attention.cc
// everything about KV.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/anonymous_memory.h"
#include "base/thread_team.h"
#include "kernels/leaf.h"
#include "kernels/ops.h"
#include "quant/formats.h"

namespace ondol::kernels {

/// Work below this many simple steps is not worth waking the team for.
inline constexpr int64_t kInlineCost = 16 * 1024;

/// Bytes packed at once: both copies of these are in memory for a moment.
inline constexpr int64_t kPackSlice = 16 << 20;

/// Some neighbouring tokens of one sequence and the query heads of one key/value head.
struct AttentionTile {
  const KvView* kv;
  const KvLayer* layer;
  const AttentionParams* params;
  const KvSequence* sequence;
  int kv_head;
  int heads;      ///< query heads per key/value head
  int first_row;  ///< of the batch
  int n_rows;
  int first_pos;    ///< position of first_row
  int first_chunk;  ///< chunks [first_chunk, end_chunk) hold all that the rows see
  int end_chunk;
  int64_t memory;  ///< floats before this tile's packed queries and then partial results, when
                   ///< chunks are spread over threads
  Rows q;
  Rows out;

  int queries() const { return n_rows * heads; }
  /// The positions that a row sees: [lo, hi).
  int lo(int row) const {
    return params->window > 0 ? std::max(0, first_pos + row + 1 - params->window) : 0;
  }
  int hi(int row) const { return first_pos + row + 1; }
  int64_t partials() const { return queries() * partial_floats(layer->head_dim_v); }
  int64_t packed() const { return packed_floats(queries(), layer->head_dim_k); }
};

class CpuOps final : public Ops {
 public:
  CpuOps(const Leaf& leaf, ThreadTeam& team) : leaf_(leaf), team_(team) {}

  void pack_weights(uint64_t room, std::function<void(std::span<const std::byte>)> packed) override;
  void embed(Rows out, const Matrix& table, std::span<const int32_t> tokens) override;
  void matmul(std::span<const MatmulJob> jobs, Rows x) override;
  void rms_norm(Rows out, Rows x, const float* weight, float eps) override;
  void rms_norm_heads(Rows x, int n_head, const float* weight, float eps) override;
  void rope(Rows x, int n_head, const RopeParams& params,
            std::span<const int32_t> positions) override;
  void kv_write(const KvView& kv, int layer, Rows k, Rows v) override;
  void attention(Rows out, Rows q, const KvView& kv, int layer,
                 const AttentionParams& params) override;
  void add(Rows x, Rows y) override;
  void scale(Rows x, float factor) override;
  void softcap(Rows x, float cap) override;
  void silu_mul(Rows gate, Rows up) override;
  void gelu_mul(Rows gate, Rows up) override;
  void gather(Rows out, Rows x, std::span<const int32_t> rows) override;

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  /// The input rows in the form that some formats ask for.
  struct ActTiles {
    quant::ActKind kind;
    int lift;
    size_t tile_bytes = 0;
    std::vector<Line> memory;
    const uint8_t* data() const { return reinterpret_cast<const uint8_t*>(memory.data()); }
  };
  /// A matrix's copy in the order in which products read it, made by and by.
  struct PackedMatrix {
    uint8_t* data = nullptr;
    int64_t rows = 0;  ///< the first ones, which are there; the others are read from the file
  };
  /// One job of a matmul cut into chunks of rows, numbered through all jobs.
  struct JobPlan {
    const LeafDot* dot;
    const uint8_t* acts;
    const PackedMatrix* packed;  ///< or null
    size_t tile_bytes;
    size_t row_bytes;
    int64_t chunk_rows;
    int64_t first_chunk;
    size_t scratch_bytes;  ///< of each thread
  };
  /// cos and sin of some positions, kept because every layer asks for the same ones.
  struct Angles {
    RopeParams params;
    std::vector<float> factors;
    std::vector<int32_t> positions;
    std::vector<float> cos;  ///< [positions][n_rot / 2]
    std::vector<float> sin;
  };

  /// work(row) for every row of `x`, in parallel where `cost` per row makes it pay.
  template <class Work>
  void for_rows(const Rows& x, int64_t cost, Work work);
  /// work(row, first column, count) over all values of `x`; `cost` per value.
  template <class Work>
  void for_values(const Rows& x, int64_t cost, Work work);

  ActTiles& tiles_of(const LeafDot& dot);
  /// Packs more rows of a matrix that is about to be used, if it is time to. Its copy so far.
  const PackedMatrix& pack_some(const Matrix& weight, const LeafDot& dot);
  /// `job` over the input tiles, which must have been filled.
  JobPlan plan_job(const MatmulJob& job, const LeafDot& dot, const ActTiles& tiles,
                   bool many) const;
  void run_chunk(const JobPlan& plan, const MatmulJob& job, const Rows& x, int64_t chunk,
                 std::span<Line> scratch) const;
  void fill_tiles(ActTiles& tiles, const Rows& x);
  void fill_column(ActTiles& tiles, const Rows& x, int column) const;
  const Angles& angles_for(const RopeParams& params, std::span<const int32_t> positions);

  void plan_tiles(const Rows& q, const KvView& kv, int layer, const AttentionParams& params);
  void pack_tile(const AttentionTile& tile, float* packed) const;
  void attend_chunk(const AttentionTile& tile, int chunk, const float* packed, float* partials,
                    float* scratch) const;
  void finish_tile(const AttentionTile& tile, const float* partials) const;
  void attend_spread(int64_t chunks, float* memory, float* own, int64_t per_thread);
  float* aligned_memory(size_t count);
  void attend_whole(const AttentionTile& tile, float* memory) const;

  const Leaf& leaf_;
  ThreadTeam& team_;
  std::deque<ActTiles> acts_;  // one of each kind that was asked for
  std::vector<Line> panels_;   // each thread's unpacked weights
  std::function<void(std::span<const std::byte>)> on_packed_;
  std::unordered_map<const std::byte*, PackedMatrix> packed_;  // by where the matrix lies
  AnonymousMemory pack_room_;   // of all copies, one behind the other
  size_t pack_used_ = 0;        // bytes
  int64_t pack_allowance_ = 0;  // bytes
  std::vector<Angles> angles_;
  size_t next_angles_ = 0;
  std::vector<AttentionTile> tiles_;
  std::vector<float> attention_memory_;
};

template <class Work>
void CpuOps::for_rows(const Rows& x, int64_t cost, Work work) {
  if (x.n * cost <= kInlineCost) {
    for (int i = 0; i < x.n; ++i) work(i);
    return;
  }
  const int64_t per_item = std::clamp<int64_t>(x.n / (4 * team_.size()), 1, 16);
  team_.parallel_for((x.n + per_item - 1) / per_item, [&](int64_t item, int) {
    const int64_t end = std::min<int64_t>((item + 1) * per_item, x.n);
    for (int64_t i = item * per_item; i < end; ++i) work(static_cast<int>(i));
  });
}

template <class Work>
void CpuOps::for_values(const Rows& x, int64_t cost, Work work) {
  constexpr int64_t kPiece =
      4096;  // a multiple of the vectors, so that lanes stay the same however rows are cut
  const int64_t pieces = (x.width + kPiece - 1) / kPiece;
  const auto piece = [&](int64_t item) {
    const int64_t first = item % pieces * kPiece;
    work(static_cast<int>(item / pieces), first, std::min<int64_t>(kPiece, x.width - first));
  };
  const int64_t items = x.n * pieces;
  if (int64_t{x.n} * x.width * cost <= kInlineCost) {
    for (int64_t i = 0; i < items; ++i) piece(i);
    return;
  }
  team_.parallel_for(items, [&](int64_t item, int) { piece(item); });
}

}  // namespace ondol::kernels
