// Thread rule: a Weights object is used while loading, by one thread; what it hands out is
// read-only.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf.h"
#include "kernels/ops.h"

namespace ondol::model {

/// A vector of floats (norms, biases): read as they are or converted once.
using Vector = const float*;

/// Hands out a file's tensors by name, checked for shape and type; keeps the first error, so that a
/// list of tensors reads like a list. Matrices stay where they are in the file.
class Weights {
 public:
  explicit Weights(const gguf::File& file) : file_(file) {}

  /// A matrix of `rows` rows of `cols` values; an error names it, its shape and the shape needed.
  kernels::Matrix matrix(const std::string& name, int64_t rows, int64_t cols);
  /// The same, or an empty one where the file has no such tensor.
  kernels::Matrix matrix_or_none(const std::string& name, int64_t rows, int64_t cols);
  /// A vector of n values.
  Vector vector(const std::string& name, int64_t n);
  /// The same, or nullptr where the file has no such tensor.
  Vector vector_or_none(const std::string& name, int64_t n);

  /// The first error, if any.
  Result<void> status() const { return status_; }
  /// Keeps converted vectors alive; the model owns it after loading.
  std::vector<std::unique_ptr<float[]>> take_owned() { return std::move(owned_); }
  /// Bytes of the matrices handed out, each counted once: what one decode step reads, but for the
  /// embedding table.
  uint64_t matrix_bytes() const { return matrix_bytes_; }

 private:
  const gguf::Tensor* find(const std::string& name, int64_t rows, int64_t cols, bool needed);

  const gguf::File& file_;
  Result<void> status_;
  std::vector<std::unique_ptr<float[]>> owned_;
  uint64_t matrix_bytes_ = 0;
};

/// "blk.3.attn_q.weight"
std::string block_tensor(int layer, std::string_view name);

}  // namespace ondol::model
