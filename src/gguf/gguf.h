// Thread rule: a File is immutable once open and may be read from any thread.
//
// GGUF, versions 2 and 3 (specification: ggml's docs/gguf.md). Bytes, names and metadata: knows no
// model.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "quant/formats.h"

namespace ondol::gguf {

enum class ValueType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

/// An array of the metadata. Numbers stay where they are in the file; read them with at_*().
class Array {
 public:
  ValueType type() const { return type_; }  ///< of the elements
  uint64_t size() const { return size_; }
  uint64_t at_uint(uint64_t i) const;  ///< any integer or bool type, converted
  int64_t at_int(uint64_t i) const;    ///< any integer or bool type, converted
  double at_float(uint64_t i) const;   ///< any number
  std::string_view at_string(uint64_t i) const;

 private:
  friend class Parser;
  ValueType type_{};
  uint64_t size_ = 0;
  const std::byte* data_ = nullptr;
  std::vector<std::string_view> strings_;
  std::vector<Array> arrays_;  // arrays of arrays, up to a stated depth
};

struct Value {
  ValueType type{};
  std::variant<uint64_t, int64_t, double, bool, std::string_view, Array> data;
};

struct KeyValue {
  std::string_view key;
  Value value;
};

struct Tensor {
  std::string_view name;
  quant::Type type{};
  std::array<uint64_t, 4> dims{1, 1, 1, 1};  ///< dims[0] is the row length, as in the file
  uint32_t n_dims = 0;
  std::span<const std::byte> data;  ///< inside the mapping
  uint64_t n_values() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

/// An open GGUF file (all parts of a split one), mapped and checked: every count, offset, length,
/// type, alignment, dimension product, string, duplicate key or tensor name and overlap was
/// compared with the file before use.
class File {
 public:
  /// Opens `path`; for a split file any part opens the whole. kRefused errors carry the byte offset
  /// and the field.
  static Result<File> open(Env& env, const std::string& path);
  /// Reads one part from memory that outlives the File (tests, fuzzing).
  static Result<File> parse(std::span<const std::byte> bytes, std::string name);

  const std::string& path() const;  ///< as it was opened
  std::span<const std::string> part_paths() const;
  uint32_t version() const;
  uint64_t size_bytes() const;                 ///< of all parts
  std::span<const KeyValue> metadata() const;  ///< in the order of the file
  std::span<const Tensor> tensors() const;

  const Value* find(std::string_view key) const;      ///< null if absent
  const Tensor* tensor(std::string_view name) const;  ///< null if absent

  // Typed look-ups. Absent: `fallback` (optional keys) or a kRefused error naming the key (required
  // ones). A value of another kind is always a kRefused error that names the key, its type and the
  // type needed; numbers convert where no value is lost.
  Result<uint64_t> get_uint(std::string_view key) const;
  Result<uint64_t> get_uint(std::string_view key, uint64_t fallback) const;
  Result<double> get_float(std::string_view key) const;
  Result<double> get_float(std::string_view key, double fallback) const;
  Result<bool> get_bool(std::string_view key, bool fallback) const;
  Result<std::string_view> get_string(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key, std::string_view fallback) const;
  Result<const Array*> get_array(std::string_view key,
                                 ValueType element) const;  ///< null if absent

 private:
  friend class Parser;
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace ondol::gguf
