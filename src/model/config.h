// Thread rule: values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gguf/gguf.h"
#include "kernels/ops.h"

namespace ondol::model {

/// Reads `{arch}.key` metadata and keeps the first error, so that a list of hyperparameters reads
/// like a list.
class KeyReader {
 public:
  KeyReader(const gguf::File& file, std::string_view arch)
      : file_(file), prefix_(std::string(arch) + ".") {}

  /// A whole number in [low, high]; an error names the key, its value and the range.
  int64_t integer(std::string_view key, int64_t low, int64_t high);
  /// The same where the key is there, else `fallback`, which is not checked.
  int64_t integer(std::string_view key, int64_t low, int64_t high, int64_t fallback);
  /// A finite number greater than zero.
  float positive(std::string_view key);
  /// The same where the key is there, else `fallback`.
  float positive(std::string_view key, float fallback);
  /// A string, or `fallback` where the key is missing.
  std::string_view text(std::string_view key, std::string_view fallback);

  /// Whether the file has the key, whatever its type.
  bool has(std::string_view key) const { return file_.find(prefix_ + std::string(key)) != nullptr; }
  /// Records an error about `key` unless there is one already.
  void reject(std::string_view key, std::string_view why);
  /// The first error, if any.
  Result<void> status() const { return status_; }
  const gguf::File& file() const { return file_; }
  /// The key with its architecture in front.
  std::string full(std::string_view key) const { return prefix_ + std::string(key); }

 private:
  template <class T>
  T take(Result<T> result);

  const gguf::File& file_;
  std::string prefix_;
  Result<void> status_;
};

/// What every decoder-only transformer has. Read and checked before anything is allocated.
struct Config {
  std::string arch;
  int n_vocab = 0;
  int n_ctx_train = 0;
  int n_layer = 0;
  int n_embd = 0;
  int n_ff = 0;
  int n_head = 0;
  int n_head_kv = 0;
  int head_dim_k = 0;
  int head_dim_v = 0;
  float rms_eps = 0;
  kernels::RopeParams rope;

  /// Widths of a row of queries, keys, values and attention output.
  int q_width() const { return n_head * head_dim_k; }
  int k_width() const { return n_head_kv * head_dim_k; }
  int v_width() const { return n_head_kv * head_dim_v; }
  int attn_width() const { return n_head * head_dim_v; }

  /// Reads the keys common to all; refuses what does not fit together (kRefused, naming the key).
  static Result<Config> read(const gguf::File& file, kernels::RopeStyle style);
};

/// general.architecture; refused where it is missing.
Result<std::string_view> architecture(const gguf::File& file);

}  // namespace ondol::model
