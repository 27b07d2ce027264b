// Gemma 3, text (arXiv 2503.19786): norms before and after each block and on each query and key
// head, GeGLU, five sliding-window layers to one global layer with a rotary base of its own.
#include "model/gemma3.h"

#include <fmt/format.h>

#include <cmath>

#include "model/blocks.h"

namespace ondol::model {
namespace {

constexpr int kGlobalGroup = 0;
constexpr int kWindowGroup = 1;

class Gemma3 final : public ModelBase {
 public:
  Gemma3(const gguf::File& file, Config config) : ModelBase(file, std::move(config)) {}

  Result<void> load() {
    if (const auto read = read_hyperparameters(); !read) return read;
    Weights weights(file_);
    ends_ = Ends::load(weights, config_);
    for (int i = 0; i < config_.n_layer && weights.status(); ++i) {
      layers_.push_back(
          {.attn_norm = weights.vector(block_tensor(i, "attn_norm.weight"), config_.n_embd),
           .attn = Attention::load(weights, config_, i),
           .post_attention_norm =
               weights.vector(block_tensor(i, "post_attention_norm.weight"), config_.n_embd),
           .ffn_norm = weights.vector(block_tensor(i, "ffn_norm.weight"), config_.n_embd),
           .ffn = FeedForward::load(weights, config_, i),
           .post_ffw_norm =
               weights.vector(block_tensor(i, "post_ffw_norm.weight"), config_.n_embd)});
    }
    return finish(weights);
  }

  void forward(kernels::Ops& ops, const Batch& batch, const KvView& kv, Workspace& workspace,
               kernels::Rows logits) const override {
    Step step = make_step(config_, ops, batch, kv, workspace, logits.n);
    ends_.embed(step);
    ops.scale(step.x, std::sqrt(static_cast<float>(config_.n_embd)));
    for (int i = 0; i < config_.n_layer; ++i) layer(step, i);
    ends_.logits(step, config_, workspace, logits);
    if (final_softcap_ > 0) ops.softcap(logits, final_softcap_);
  }

 private:
  struct Layer {
    Vector attn_norm;  // [n_embd]
    Attention attn;
    Vector post_attention_norm;  // [n_embd]
    Vector ffn_norm;             // [n_embd]
    FeedForward ffn;
    Vector post_ffw_norm;  // [n_embd]
  };

  void layer(Step& step, int index) const {
    const Layer& l = layers_[static_cast<size_t>(index)];
    const bool global = cache_.layers[static_cast<size_t>(index)].group == kGlobalGroup;
    const kernels::AttentionParams params{
        .n_head = config_.n_head, .scale = attention_scale_, .window = global ? 0 : window_};
    step.ops.rms_norm(step.h, step.x, l.attn_norm, config_.rms_eps);
    l.attn.forward(step, config_, index, global ? config_.rope : local_rope_, params);
    step.ops.rms_norm(step.h, step.h, l.post_attention_norm, config_.rms_eps);
    step.ops.add(step.x, step.h);
    step.ops.rms_norm(step.h, step.x, l.ffn_norm, config_.rms_eps);
    l.ffn.forward_gelu(step);
    step.ops.rms_norm(step.h, step.h, l.post_ffw_norm, config_.rms_eps);
    step.ops.add(step.x, step.h);
  }

  Result<void> read_hyperparameters() {
    KeyReader keys(file_, config_.arch);
    window_ = static_cast<int>(keys.integer("attention.sliding_window", 1, 1 << 30));
    local_rope_ = config_.rope;
    local_rope_.freq_base = keys.positive("rope.freq_base_swa", 10000.0f);
    local_rope_.freq_scale = 1.0f;
    local_rope_.yarn_ext_factor = 0.0f;
    local_rope_.attn_factor = 1.0f;
    // Scores are scaled by query_pre_attn_scalar^-1/2: the head size, but for the 27B model (62
    // layers), whose scalar is n_embd / n_head.
    const int scalar = config_.n_layer == 62 ? config_.n_embd / config_.n_head : config_.head_dim_k;
    attention_scale_ = 1.0f / std::sqrt(static_cast<float>(scalar));
    attention_scale_ = keys.positive("attention.scale", attention_scale_);
    final_softcap_ =
        keys.has("final_logit_softcapping") ? keys.positive("final_logit_softcapping") : 0.0f;
    read_cache(keys);
    return keys.status();
  }

  /// Every sixth layer is global unless the file says otherwise: a period, or one flag per layer
  /// (true: window).
  void read_cache(KeyReader& keys) {
    use_full_cache();
    cache_.groups.push_back({.window = window_});
    const gguf::Value* pattern = file_.find(keys.full("attention.sliding_window_pattern"));
    const auto* flags = pattern != nullptr ? std::get_if<gguf::Array>(&pattern->data) : nullptr;
    if (flags != nullptr) {
      if (flags->type() != gguf::ValueType::kBool || flags->size() < cache_.layers.size()) {
        keys.reject("attention.sliding_window_pattern",
                    "it must be a number or one truth value per layer");
        return;
      }
      for (size_t i = 0; i < cache_.layers.size(); ++i) {
        cache_.layers[i].group = flags->at_uint(i) != 0 ? kWindowGroup : kGlobalGroup;
      }
      return;
    }
    const int64_t period = keys.integer("attention.sliding_window_pattern", 1, 1 << 20, 6);
    for (size_t i = 0; i < cache_.layers.size(); ++i) {
      cache_.layers[i].group =
          (static_cast<int64_t>(i) + 1) % period == 0 ? kGlobalGroup : kWindowGroup;
    }
  }

  Ends ends_;
  std::vector<Layer> layers_;
  kernels::RopeParams local_rope_;
  int window_ = 0;
  float attention_scale_ = 0;
  float final_softcap_ = 0;
};

}  // namespace

Result<std::unique_ptr<const Model>> load_gemma3(const gguf::File& file) {
  auto config = Config::read(file, kernels::RopeStyle::kHalves);
  if (!config) return propagate(std::move(config));
  auto model = std::make_unique<Gemma3>(file, *std::move(config));
  if (const auto loaded = model->load(); !loaded) return propagate(loaded);
  return model;
}

}  // namespace ondol::model
