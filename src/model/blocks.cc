#include "model/blocks.h"

#include <array>
#include <cassert>

namespace ondol::model {
namespace {

constexpr size_t kAlignFloats = 16;  // 64 bytes, a cache line

size_t padded(size_t floats) { return (floats + kAlignFloats - 1) / kAlignFloats * kAlignFloats; }

}  // namespace

void Workspace::reset(size_t floats) {
  if (memory_.size() < floats + kAlignFloats) memory_.resize(floats + kAlignFloats);
  const auto address = reinterpret_cast<uintptr_t>(memory_.data()) / sizeof(float);
  used_ = (kAlignFloats - address % kAlignFloats) % kAlignFloats;
}

kernels::Rows Workspace::take(int n, int width) {
  const size_t floats = padded(static_cast<size_t>(n) * static_cast<size_t>(width));
  assert(used_ + floats <= memory_.size());
  float* data = memory_.data() + used_;
  used_ += floats;
  return {data, n, width, width};
}

size_t step_floats(const Config& config, int n_rows, int n_logits) {
  const auto n = static_cast<size_t>(n_rows);
  size_t total = 0;
  for (const int width : {config.n_embd, config.n_embd, config.q_width(), config.k_width(),
                          config.v_width(), config.attn_width(), config.n_ff, config.n_ff}) {
    total += padded(n * static_cast<size_t>(width));
  }
  return total + padded(static_cast<size_t>(n_logits) * static_cast<size_t>(config.n_embd));
}

Step make_step(const Config& config, kernels::Ops& ops, const Batch& batch, const KvView& kv,
               Workspace& workspace, int n_logits) {
  const int n = static_cast<int>(batch.tokens.size());
  workspace.reset(step_floats(config, n, n_logits));
  return {.ops = ops,
          .batch = batch,
          .kv = kv,
          .x = workspace.take(n, config.n_embd),
          .h = workspace.take(n, config.n_embd),
          .q = workspace.take(n, config.q_width()),
          .k = workspace.take(n, config.k_width()),
          .v = workspace.take(n, config.v_width()),
          .attn = workspace.take(n, config.attn_width()),
          .gate = workspace.take(n, config.n_ff),
          .up = workspace.take(n, config.n_ff)};
}

Attention Attention::load(Weights& weights, const Config& c, int layer) {
  const auto name = [layer](std::string_view part) { return block_tensor(layer, part); };
  return {.q = weights.matrix(name("attn_q.weight"), c.q_width(), c.n_embd),
          .k = weights.matrix(name("attn_k.weight"), c.k_width(), c.n_embd),
          .v = weights.matrix(name("attn_v.weight"), c.v_width(), c.n_embd),
          .output = weights.matrix(name("attn_output.weight"), c.n_embd, c.attn_width()),
          .q_bias = weights.vector_or_none(name("attn_q.bias"), c.q_width()),
          .k_bias = weights.vector_or_none(name("attn_k.bias"), c.k_width()),
          .v_bias = weights.vector_or_none(name("attn_v.bias"), c.v_width()),
          .output_bias = weights.vector_or_none(name("attn_output.bias"), c.n_embd),
          .q_norm = weights.vector_or_none(name("attn_q_norm.weight"), c.head_dim_k),
          .k_norm = weights.vector_or_none(name("attn_k_norm.weight"), c.head_dim_k)};
}

void Attention::forward(Step& step, const Config& config, int layer,
                        const kernels::RopeParams& rope,
                        const kernels::AttentionParams& params) const {
  kernels::Ops& ops = step.ops;
  ops.matmul(
      std::array<kernels::MatmulJob, 3>{
          {{step.q, q, q_bias}, {step.k, k, k_bias}, {step.v, v, v_bias}}},
      step.h);
  if (q_norm != nullptr) ops.rms_norm_heads(step.q, config.n_head, q_norm, config.rms_eps);
  if (k_norm != nullptr) ops.rms_norm_heads(step.k, config.n_head_kv, k_norm, config.rms_eps);
  ops.rope(step.q, config.n_head, rope, step.batch.positions);
  ops.rope(step.k, config.n_head_kv, rope, step.batch.positions);
  ops.kv_write(step.kv, layer, step.k, step.v);
  ops.attention(step.attn, step.q, step.kv, layer, params);
  ops.matmul(std::array<kernels::MatmulJob, 1>{{{step.h, output, output_bias}}}, step.attn);
}

FeedForward FeedForward::load(Weights& weights, const Config& c, int layer) {
  return {.gate = weights.matrix(block_tensor(layer, "ffn_gate.weight"), c.n_ff, c.n_embd),
          .up = weights.matrix(block_tensor(layer, "ffn_up.weight"), c.n_ff, c.n_embd),
          .down = weights.matrix(block_tensor(layer, "ffn_down.weight"), c.n_embd, c.n_ff)};
}

void FeedForward::forward_silu(Step& step) const {
  step.ops.matmul(std::array<kernels::MatmulJob, 2>{{{step.gate, gate}, {step.up, up}}}, step.h);
  step.ops.silu_mul(step.gate, step.up);
  step.ops.matmul(std::array<kernels::MatmulJob, 1>{{{step.h, down}}}, step.gate);
}

void FeedForward::forward_gelu(Step& step) const {
  step.ops.matmul(std::array<kernels::MatmulJob, 2>{{{step.gate, gate}, {step.up, up}}}, step.h);
  step.ops.gelu_mul(step.gate, step.up);
  step.ops.matmul(std::array<kernels::MatmulJob, 1>{{{step.h, down}}}, step.gate);
}

Ends Ends::load(Weights& weights, const Config& c) {
  Ends ends{.token_embd = weights.matrix("token_embd.weight", c.n_vocab, c.n_embd),
            .output_norm = weights.vector("output_norm.weight", c.n_embd),
            .output = weights.matrix_or_none("output.weight", c.n_vocab, c.n_embd)};
  if (!ends.output) ends.output = ends.token_embd;
  return ends;
}

void Ends::embed(Step& step) const { step.ops.embed(step.x, token_embd, step.batch.tokens); }

void Ends::logits(Step& step, const Config& config, Workspace& workspace, kernels::Rows out) const {
  if (step.batch.logit_rows.empty()) return;
  const kernels::Rows last =
      workspace.take(static_cast<int>(step.batch.logit_rows.size()), config.n_embd);
  step.ops.gather(last, step.x, step.batch.logit_rows);
  step.ops.rms_norm(last, last, output_norm, config.rms_eps);
  step.ops.matmul(std::array<kernels::MatmulJob, 1>{{{out, output}}}, last);
}

Result<void> ModelBase::finish(Weights& weights) {
  owned_ = weights.take_owned();
  weight_bytes_ = weights.matrix_bytes();
  // An untied embedding table is only looked up, one row a token.
  if (const gguf::Tensor* table = file_.tensor("token_embd.weight");
      file_.tensor("output.weight") != nullptr) {
    weight_bytes_ -= table->data.size();
  }
  return weights.status();
}

void ModelBase::use_full_cache() {
  cache_.groups = {{.window = 0}};
  cache_.layers.assign(static_cast<size_t>(config_.n_layer), {.group = 0,
                                                              .n_head_kv = config_.n_head_kv,
                                                              .head_dim_k = config_.head_dim_k,
                                                              .head_dim_v = config_.head_dim_v});
}

}  // namespace ondol::model
