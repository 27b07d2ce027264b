// Thread rule: one thread calls an Ops object; it spreads the work over its own team.
//
// What a model's forward pass is made of. Model code calls these and never touches an activation
// itself, so that another backend (a GPU, with some layers offloaded) can implement the same list.
//
// Bit-exactness: each output element is computed in an order fixed by its own row and weights
// alone. It does not depend on how many rows come with it, how a prompt is cut, the page table or
// the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "kernels/kv_view.h"
#include "quant/formats.h"

namespace ondol::kernels {

/// A weight matrix as it lies in the file: `rows` rows of `cols` values. y = W x has `rows`
/// outputs.
struct Matrix {
  quant::Type type{};
  int64_t rows = 0;
  int64_t cols = 0;
  const std::byte* data = nullptr;
  explicit operator bool() const { return data != nullptr; }
};

/// Activations: n rows of `width` floats, `stride` floats apart.
struct Rows {
  float* data = nullptr;
  int n = 0;
  int width = 0;
  int64_t stride = 0;
  float* row(int i) const { return data + i * stride; }
  /// The columns [first, first + count) of every row.
  Rows cols(int first, int count) const { return {data + first, n, count, stride}; }
};

/// One product of a group that shares its input: out = x Wᵀ + bias.
struct MatmulJob {
  Rows out;
  Matrix weight;
  const float* bias = nullptr;  ///< [weight.rows], or null
};

enum class RopeStyle : uint8_t {
  kInterleaved,  ///< pairs (2i, 2i+1): the llama family
  kHalves,       ///< pairs (i, i + n_rot/2): "NeoX"
};

/// Rotary position embedding and its scalings (RoFormer, arXiv 2104.09864; YaRN, arXiv 2309.00071).
struct RopeParams {
  RopeStyle style = RopeStyle::kInterleaved;
  int n_rot = 0;  ///< leading values of each head that are rotated
  float freq_base = 10000.0f;
  float freq_scale = 1.0f;  ///< 1 / linear scaling factor
  const float* freq_factors =
      nullptr;  ///< [n_rot/2] divisors of the frequencies (Llama 3.1, LongRoPE), or null
  float attn_factor = 1.0f;      ///< scales the rotated values (YaRN, LongRoPE)
  float yarn_ext_factor = 0.0f;  ///< 0: no YaRN
  float yarn_beta_fast = 32.0f;
  float yarn_beta_slow = 1.0f;
  int original_ctx = 0;  ///< context the model was trained with, for YaRN
};

struct AttentionParams {
  int n_head = 0;
  float scale = 1.0f;
  float softcap = 0.0f;  ///< 0: none; else cap * tanh(score / cap)
  int window = 0;        ///< 0: all; else position p sees (p - window, p]
  const float* sinks =
      nullptr;  ///< [n_head] extra logits that take probability but add no value, or null
};

/// Weights are packed while they are used: for every so many bytes that products read one byte. So
/// the first answer begins at once, and what packing takes is spread over as many passes.
inline constexpr int64_t kPackShare = 32;

class Ops {
 public:
  virtual ~Ops() = default;

  /// Promises that matrices stay what and where they are for as long as this lives: each may be
  /// copied, by and by, into the order in which products read it. `packed` is given the bytes that
  /// products will not read from there any more. What does not fit into `room` bytes, or into the
  /// address space that the system allows, stays as it is.
  virtual void pack_weights(uint64_t room,
                            std::function<void(std::span<const std::byte>)> packed) = 0;

  /// out[i] = row tokens[i] of the table, as floats. Token ids are valid.
  virtual void embed(Rows out, const Matrix& table, std::span<const int32_t> tokens) = 0;
  /// Several products of one input: its quantisation and the start of the threads are paid once.
  virtual void matmul(std::span<const MatmulJob> jobs, Rows x) = 0;
  /// out = x / sqrt(mean(x²) + eps) * weight, each row by itself (arXiv 1910.07467). `out` may be
  /// `x`. weight null: not scaled.
  virtual void rms_norm(Rows out, Rows x, const float* weight, float eps) = 0;
  /// The same over each head: x has n_head * head_dim columns, weight head_dim values.
  virtual void rms_norm_heads(Rows x, int n_head, const float* weight, float eps) = 0;
  /// Rotates each head of x in place; positions has one entry per row.
  virtual void rope(Rows x, int n_head, const RopeParams& rope,
                    std::span<const int32_t> positions) = 0;
  /// Writes the rows' keys and values into the pages of their sequences.
  virtual void kv_write(const KvView& kv, int layer, Rows k, Rows v) = 0;
  /// Causal attention of q [n, n_head * head_dim_k] over the pages; the rows' own keys were written
  /// before. Head h reads key/value head h * n_head_kv / n_head. out [n, n_head * head_dim_v].
  virtual void attention(Rows out, Rows q, const KvView& kv, int layer,
                         const AttentionParams& params) = 0;
  virtual void add(Rows x, Rows y) = 0;          ///< x += y
  virtual void scale(Rows x, float factor) = 0;  ///< x *= factor
  virtual void softcap(Rows x, float cap) = 0;   ///< x = cap * tanh(x / cap)
  virtual void silu_mul(Rows gate,
                        Rows up) = 0;  ///< gate = silu(gate) * up (SwiGLU, arXiv 2002.05202)
  virtual void gelu_mul(Rows gate, Rows up) = 0;  ///< gate = gelu_tanh(gate) * up (GeGLU)
  virtual void gather(Rows out, Rows x,
                      std::span<const int32_t> rows) = 0;  ///< out[i] = x[rows[i]]
};

}  // namespace ondol::kernels
