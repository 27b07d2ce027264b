// Thread rule: as Model::forward: one thread.
//
// What the architectures are built from. Each block reads `Step` buffers by name, so that a layer
// reads like the paper.
#pragma once

#include "model/config.h"
#include "model/model.h"
#include "model/weights.h"

namespace ondol::model {

/// One forward pass under way: the batch, the cache and the activations.
struct Step {
  kernels::Ops& ops;
  const Batch& batch;
  const KvView& kv;
  kernels::Rows x;     ///< [n, n_embd] residual stream
  kernels::Rows h;     ///< [n, n_embd] input and output of a block
  kernels::Rows q;     ///< [n, n_head * head_dim_k]
  kernels::Rows k;     ///< [n, n_head_kv * head_dim_k]
  kernels::Rows v;     ///< [n, n_head_kv * head_dim_v]
  kernels::Rows attn;  ///< [n, n_head * head_dim_v]
  kernels::Rows gate;  ///< [n, n_ff]
  kernels::Rows up;    ///< [n, n_ff]
};

/// Floats that the buffers of a Step and the last rows take.
size_t step_floats(const Config& config, int n_rows, int n_logits);
/// A step over `batch` whose buffers are taken from `workspace`, with room for n_logits last rows.
Step make_step(const Config& config, kernels::Ops& ops, const Batch& batch, const KvView& kv,
               Workspace& workspace, int n_logits);

/// Self-attention with grouped heads (arXiv 1706.03762, 2305.13245); biases and head norms where
/// the file has them.
struct Attention {
  kernels::Matrix q;       // [n_head * head_dim_k, n_embd]
  kernels::Matrix k;       // [n_head_kv * head_dim_k, n_embd]
  kernels::Matrix v;       // [n_head_kv * head_dim_v, n_embd]
  kernels::Matrix output;  // [n_embd, n_head * head_dim_v]
  Vector q_bias;           // [n_head * head_dim_k] or none
  Vector k_bias;           // [n_head_kv * head_dim_k] or none
  Vector v_bias;           // [n_head_kv * head_dim_v] or none
  Vector output_bias;      // [n_embd] or none
  Vector q_norm;           // [head_dim_k] or none
  Vector k_norm;           // [head_dim_k] or none

  /// The tensors of layer `layer`; what is missing or misshapen is noted in `weights`.
  static Attention load(Weights& weights, const Config& config, int layer);
  /// step.h -> step.h
  void forward(Step& step, const Config& config, int layer, const kernels::RopeParams& rope,
               const kernels::AttentionParams& params) const;
};

/// Gated feed-forward network (arXiv 2002.05202).
struct FeedForward {
  kernels::Matrix gate;  // [n_ff, n_embd]
  kernels::Matrix up;    // [n_ff, n_embd]
  kernels::Matrix down;  // [n_embd, n_ff]

  /// The tensors of layer `layer`, as Attention::load.
  static FeedForward load(Weights& weights, const Config& config, int layer);
  void forward_silu(Step& step) const;  ///< step.h -> step.h, SwiGLU
  void forward_gelu(Step& step) const;  ///< step.h -> step.h, GeGLU
};

/// Token embedding, last norm and output head.
struct Ends {
  kernels::Matrix token_embd;  // [n_vocab, n_embd]
  Vector output_norm;          // [n_embd]
  kernels::Matrix output;  // [n_vocab, n_embd], the embedding table where the file has none (tied)

  /// The tensors around the layers, as Attention::load.
  static Ends load(Weights& weights, const Config& config);
  /// batch.tokens -> step.x, one row of the table each.
  void embed(Step& step) const;
  /// Logits of batch.logit_rows.
  void logits(Step& step, const Config& config, Workspace& workspace, kernels::Rows out) const;
};

/// The parts of a Model that are the same for all.
class ModelBase : public Model {
 public:
  const Config& config() const override { return config_; }
  const CacheSpec& cache() const override { return cache_; }
  size_t workspace_floats(int n_rows, int n_logits) const override {
    return step_floats(config_, n_rows, n_logits);
  }
  uint64_t weight_bytes_per_token() const override { return weight_bytes_; }

 protected:
  ModelBase(const gguf::File& file, Config config) : file_(file), config_(std::move(config)) {}
  /// Takes over what the weights own; the error that loading met, if any.
  Result<void> finish(Weights& weights);
  /// One cache group of full attention for all layers.
  void use_full_cache();

  gguf::File file_;  // keeps the mapping alive
  Config config_;
  CacheSpec cache_;
  uint64_t weight_bytes_ = 0;
  std::vector<std::unique_ptr<float[]>> owned_;
};

}  // namespace ondol::model
