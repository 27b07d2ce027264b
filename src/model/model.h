// Thread rule: a Model is immutable once loaded; forward() is called by one thread at a time (the
// engine's).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "kernels/kv_view.h"
#include "kernels/ops.h"
#include "model/config.h"

namespace ondol::model {

/// Rows of several sequences, in the order of KvView::sequences.
struct Batch {
  std::span<const int32_t> tokens;      ///< [n_rows], valid ids
  std::span<const int32_t> positions;   ///< [n_rows], each row's position in its sequence
  std::span<const int32_t> logit_rows;  ///< rows whose logits are wanted, ascending
};

/// What the model asks of the KV cache: layers that share a cache kind form a group.
struct CacheSpec {
  struct Group {
    int window = 0;  ///< 0: full attention; else only the last `window` tokens are ever read
  };
  struct Layer {
    int group = 0;
    int n_head_kv = 0;
    int head_dim_k = 0;
    int head_dim_v = 0;
  };
  std::vector<Group> groups;
  std::vector<Layer> layers;
};

/// Memory for the activations of one forward pass, grown once and used again.
class Workspace {
 public:
  /// Starts anew with room for `floats` values (and their alignment).
  void reset(size_t floats);
  /// n rows of `width` values, not initialised; aligned to 64 bytes where the width allows.
  kernels::Rows take(int n, int width);

 private:
  std::vector<float> memory_;
  size_t used_ = 0;
};

/// A model of a supported architecture, its weights mapped from the file.
class Model {
 public:
  virtual ~Model() = default;

  /// Maps the file's tensors to the architecture it names. kRefused where the file does not
  /// describe a model that is supported: the message names the architecture, key or tensor. The
  /// file's mapping is kept alive by the model.
  static Result<std::unique_ptr<const Model>> load(const gguf::File& file);

  /// One pass over a mixed, ragged batch: writes the rows' keys and values, and the logits
  /// [logit_rows, n_vocab].
  virtual void forward(kernels::Ops& ops, const Batch& batch, const KvView& kv,
                       Workspace& workspace, kernels::Rows logits) const = 0;

  /// The hyperparameters, as checked on loading.
  virtual const Config& config() const = 0;
  /// The layers of the cache that forward() writes and reads.
  virtual const CacheSpec& cache() const = 0;
  /// Floats of workspace that a pass over n_rows takes.
  virtual size_t workspace_floats(int n_rows, int n_logits) const = 0;
  /// Bytes of weights that one decode step of one sequence reads.
  virtual uint64_t weight_bytes_per_token() const = 0;
};

/// One supported architecture: a name in general.architecture and how to load it.
struct Architecture {
  std::string_view name;
  Result<std::unique_ptr<const Model>> (*load)(const gguf::File&);
};
/// Every architecture that Model::load knows.
std::span<const Architecture> architectures();

}  // namespace ondol::model
