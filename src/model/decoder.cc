#include "model/decoder.h"

#include <fmt/format.h>

#include <cmath>

namespace ondol::model {

Result<void> Decoder::load() {
  Weights weights(file_);
  ends_ = Ends::load(weights, config_);
  for (int i = 0; i < config_.n_layer && weights.status(); ++i) {
    layers_.push_back(
        {.attn_norm = weights.vector(block_tensor(i, "attn_norm.weight"), config_.n_embd),
         .attn = Attention::load(weights, config_, i),
         .ffn_norm = weights.vector(block_tensor(i, "ffn_norm.weight"), config_.n_embd),
         .ffn = FeedForward::load(weights, config_, i)});
  }
  // Llama 3.1 and its like: divisors of the rotary frequencies (rope_freqs).
  config_.rope.freq_factors = weights.vector_or_none("rope_freqs.weight", config_.rope.n_rot / 2);
  use_full_cache();
  return finish(weights);
}

void Decoder::forward(kernels::Ops& ops, const Batch& batch, const KvView& kv, Workspace& workspace,
                      kernels::Rows logits) const {
  Step step = make_step(config_, ops, batch, kv, workspace, logits.n);
  ends_.embed(step);
  for (int i = 0; i < config_.n_layer; ++i) layer(step, i);
  ends_.logits(step, config_, workspace, logits);
}

void Decoder::layer(Step& step, int index) const {
  const Layer& l = layers_[static_cast<size_t>(index)];
  const kernels::AttentionParams params{
      .n_head = config_.n_head, .scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim_k))};
  step.ops.rms_norm(step.h, step.x, l.attn_norm, config_.rms_eps);
  l.attn.forward(step, config_, index, config_.rope, params);
  step.ops.add(step.x, step.h);
  step.ops.rms_norm(step.h, step.x, l.ffn_norm, config_.rms_eps);
  l.ffn.forward_silu(step);
  step.ops.add(step.x, step.h);
}

Result<void> require(const Decoder& decoder, bool (*present)(const Attention&),
                     std::string_view tensor) {
  for (int i = 0; i < decoder.config().n_layer; ++i) {
    if (!present(decoder.attention(i))) {
      return refused(
          fmt::format("the model file has no tensor '{}', which the architecture '{}' needs",
                      block_tensor(i, tensor), decoder.config().arch));
    }
  }
  return {};
}

}  // namespace ondol::model
