// Thread rule: as Model.
#pragma once

#include <vector>

#include "model/blocks.h"

namespace ondol::model {

/// The pre-norm decoder that most families share (Llama 2, arXiv 2307.09288): attention and
/// feed-forward, each behind a norm, each added to the residual stream. What an architecture adds
/// shows in the tensors that its file has.
class Decoder final : public ModelBase {
 public:
  Decoder(const gguf::File& file, Config config) : ModelBase(file, std::move(config)) {}

  /// Maps the tensors; called once, before forward().
  Result<void> load();
  /// The attention block of a layer, for an architecture to check what it needs of it.
  const Attention& attention(int layer) const { return layers_[static_cast<size_t>(layer)].attn; }

  void forward(kernels::Ops& ops, const Batch& batch, const KvView& kv, Workspace& workspace,
               kernels::Rows logits) const override;

 private:
  struct Layer {
    Vector attn_norm;  // [n_embd]
    Attention attn;
    Vector ffn_norm;  // [n_embd]
    FeedForward ffn;
  };

  void layer(Step& step, int index) const;

  Ends ends_;
  std::vector<Layer> layers_;
};

/// Whether every layer has what `present` looks for; refused otherwise, naming the tensor.
Result<void> require(const Decoder& decoder, bool (*present)(const Attention&),
                     std::string_view tensor);

}  // namespace ondol::model
