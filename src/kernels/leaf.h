// Thread rule: the tables are constant; a leaf function works on what it is given and may run on
// many threads at once.
//
// What one instruction set offers: functions on raw rows, without threads and without memory of
// their own. One leaf file per instruction set (leaf_avx2.cc, ...) instantiates leaf.inc.h over its
// vectors; cpu_ops.cc spreads the calls over the team.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kv_view.h"
#include "kernels/ops.h"
#include "quant/panel.h"
#include "simd/isa.h"

namespace ondol::kernels {

/// The widest tile of input rows that any leaf works on at once.
inline constexpr int kMaxTile = 8;

/// Input rows (columns of the product) quantised in blocks of 32, C of them side by side.
template <int C>
struct Acts32 {
  int8_t q[C][32];   ///< within -127..127
  float scale[C];    ///< value = scale * q
  int32_t extra[C];  ///< what the format adds to all its weights (ActsOut::lift)
};
/// The same in blocks of 256.
template <int C>
struct Acts256 {
  int8_t q[C][256];
  int16_t sums[C][16];  ///< of each 16 q
  float scale[C];
};
/// Eight values of C input rows as they are.
template <int C>
struct ActsFloat {
  float x[8][C];
};

static_assert(sizeof(Acts32<8>) == 8 * 40 && sizeof(Acts256<8>) == 8 * 292);

/// Bytes of the activations of one block (of eight values where they stay floats).
constexpr size_t acts_bytes(quant::ActKind kind, int width) {
  const auto n = static_cast<size_t>(width);
  return n * (kind == quant::ActKind::kFloat ? 32 : kind == quant::ActKind::kBlocks32 ? 40 : 292);
}
/// Values of such a block.
constexpr int acts_values(quant::ActKind kind) {
  return kind == quant::ActKind::kFloat ? 8 : kind == quant::ActKind::kBlocks32 ? 32 : 256;
}

/// Where the blocks of one input row begin within its tile, and how far apart they are.
struct ActsOut {
  int8_t* q;
  float* scale;
  void* extra;  ///< int32 or float of each block of 32; int16 sums of each block of 256
  size_t step;  ///< bytes from block to block
  int lift;     ///< blocks of 32: `extra` = -lift * sum of q as int32, or scale * sum as float if 0
};

/// out[c * out_stride + r] = weights[r] . column c (+ bias[r])
struct MatmulTask {
  const uint8_t* weights = nullptr;  ///< the first row
  const uint8_t* packed = nullptr;   ///< the same rows as LeafDot::pack leaves them, or null
  size_t row_bytes = 0;
  int64_t n_rows = 0;
  int64_t n_values = 0;           ///< of a row
  const uint8_t* acts = nullptr;  ///< tiles of Acts32, Acts256 or ActsFloat: all but the last full
  size_t tile_bytes = 0;          ///< of a full tile
  int n_columns = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
  const float* bias = nullptr;   ///< [n_rows], or null
  std::byte* scratch = nullptr;  ///< aligned to 64; room for one panel at least, if there is more
                                 ///< than one tile
  size_t scratch_bytes = 0;
};

/// The product of one weight format.
struct LeafDot {
  const char* format;  ///< name as in quant/formats.h
  quant::ActKind acts;
  int lift;            ///< ActsOut::lift
  int panel_values;    ///< values of a row in a panel
  size_t panel_bytes;  ///< of a panel in memory
  size_t block_bytes;  ///< of one row in a panel, as in the file
  void (*matmul)(const MatmulTask& task);
  /// Copies n_rows rows (a multiple of Leaf::rows; row_bytes a multiple of block_bytes) into the
  /// order in which a product reads them: panel by panel, in it block by block, in it as
  /// quant::PackedSource says.
  void (*pack)(const uint8_t* rows, size_t row_bytes, int64_t n_rows, uint8_t* packed);
};

/// The context is always worked on in chunks of this many positions, from position 0 on: softmax
/// and weighted sum of each chunk for itself, then the chunks merged in order. So it does not
/// matter who computes which chunk.
inline constexpr int kChunkPages = 16;
inline constexpr int kChunkTokens = kChunkPages * kPageTokens;

/// The positions [lo, hi) of a chunk that one query looks at, counted from the chunk's first.
struct AttentionQuery {
  int lo = 0;
  int hi = 0;
};

/// Queries over one chunk of one key/value head. Nothing outside the queries' positions matters.
struct AttentionTask {
  KvType type_k{};
  KvType type_v{};
  int dim_k = 0;
  int dim_v = 0;
  const uint8_t* k_pages[kChunkPages] =
      {};  ///< the head's keys in each page; null where no query looks
  const uint8_t* v_pages[kChunkPages] = {};
  float scale = 1.0f;
  float softcap = 0.0f;
  const AttentionQuery* queries = nullptr;
  int n_queries = 0;
  const float* packed = nullptr;  ///< the queries as Leaf::pack_queries wrote them
  float* partials = nullptr;      ///< out: [n_queries] of partial_floats(dim_v)
  float* scratch = nullptr;       ///< attention_scratch_floats() of room, initialised once
};

static constexpr int64_t whole_vectors(int64_t n) { return (n + 15) / 16 * 16; }
/// A partial result: the values weighted by 2^(score - largest), and from partial_sums() on the
/// largest score and the sum of these weights, scores in units of ln 2. An empty one has the sum 0.
static constexpr int64_t partial_sums(int dim_v) { return whole_vectors(dim_v); }
static constexpr int64_t partial_floats(int dim_v) { return whole_vectors(dim_v) + 16; }
/// Room of packed queries: their numbers and a factor each.
static constexpr int64_t packed_floats(int n_queries, int dim_k) {
  return whole_vectors(int64_t{n_queries} * (dim_k + 1));
}
/// Scores, the weights of a tile's queries, and some pages as floats.
static constexpr int64_t attention_scratch_floats(int n_queries, int dim_k, int dim_v) {
  const int64_t dim = whole_vectors(dim_k > dim_v ? dim_k : dim_v);
  return (int64_t{n_queries} + 16) * kChunkTokens + 4 * kPageTokens * dim;
}

struct Leaf {
  const LeafDot* dots;
  int n_dots;
  int rows;  ///< of a panel
  int tile;  ///< input rows of a full tile, a power of two up to kMaxTile
  void (*quantize32)(const float* x, int64_t n, const ActsOut& out);   ///< n: multiple of 32
  void (*quantize256)(const float* x, int64_t n, const ActsOut& out);  ///< n: multiple of 256
  void (*rms_norm)(float* out, const float* x, const float* weight, int64_t n, float eps);
  void (*add)(float* x, const float* y, int64_t n);
  void (*scale)(float* x, float factor, int64_t n);
  void (*softcap)(float* x, float cap, int64_t n);
  void (*silu_mul)(float* gate, const float* up, int64_t n);
  void (*gelu_mul)(float* gate, const float* up, int64_t n);
  /// Rotates one head: cos and sin of n_rot / 2 angles.
  void (*rope)(float* x, const float* cos, const float* sin, int n_rot, RopeStyle style);
  /// Writes a token's key (value) to its slot of a head's part of a page (kv_view.h).
  void (*store_key)(KvType type, uint8_t* page, int slot, const float* x, int dim);
  void (*store_value)(KvType type, uint8_t* page, int slot, const float* x, int dim);
  /// Queries in the form that attend() wants for keys of this type; `packed`: packed_floats().
  void (*pack_queries)(KvType type, const float* const* q, int n, int dim, float* packed);
  void (*attend)(const AttentionTask& task);
  /// Adds a later chunk's partial result to the one of all chunks before.
  void (*merge)(float* into, const float* part, int dim_v);
  /// out = the weighted mean. `sink`: one more score without a value, or null.
  void (*finish)(float* out, const float* partial, int dim_v, const float* sink);
};

/// The leaf of an instruction set, or null where it is not in this program.
const Leaf* find_leaf(simd::Isa isa);

}  // namespace ondol::kernels
