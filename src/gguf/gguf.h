// Thread rule: a File is immutable once open and may be read from any thread.
//
// GGUF, versions 2 and 3 (specification: ggml's docs/gguf.md). Bytes, names and metadata: knows no
// model.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
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

/// "u32", "string", "array": how messages and listings name a type.
std::string_view type_name(ValueType type);
/// Bytes of one value of a type in the file; 0 for strings and arrays, whose values vary in size.
uint32_t type_size(ValueType type);
bool is_integer(ValueType type);  ///< signed or unsigned; bool is none
/// Whether the type is one of the two floating-point types.
bool is_float(ValueType type);

/// An array of the metadata. Values stay where they are in the file; read them with at_*(), `i <
/// size()`. Asking for another kind than type() is a bug of the caller (get_array() checks the
/// kind).
class Array {
 public:
  ValueType type() const { return type_; }  ///< of the elements
  /// Elements of this array.
  uint64_t size() const { return size_; }
  uint64_t at_uint(
      uint64_t i) const;  ///< any integer or bool type; a negative value wraps (ask at_int)
  int64_t at_int(uint64_t i) const;   ///< any integer or bool type; a u64 of 2^63 or more wraps
  double at_float(uint64_t i) const;  ///< any number; 64-bit integers are rounded
  /// The bytes of a string, a view into the file.
  std::string_view at_string(uint64_t i) const;
  /// An array within this one.
  const Array& at_array(uint64_t i) const;

 private:
  friend class Parser;
  ValueType type_{};
  uint64_t size_ = 0;
  const std::byte* data_ = nullptr;  // the first element, in the mapping
  // Strings: where each begins, counted from data_, and the end of the last. Lengths come from here
  // and are never read from the file again, which another process might be changing.
  std::vector<uint32_t> starts_;
  std::vector<Array> arrays_;  // arrays of arrays, up to kMaxArrayDepth
};

struct Value {
  ValueType type{};
  /// u8…u64 as uint64_t, i8…i64 as int64_t, f32 and f64 as double.
  std::variant<uint64_t, int64_t, double, bool, std::string_view, Array> data;
};

struct KeyValue {
  std::string_view key;  ///< valid UTF-8
  Value value;           ///< strings are bytes: a vocabulary's pieces need not be UTF-8
};

struct Tensor {
  std::string_view name;  ///< valid UTF-8, 1 to 64 bytes
  quant::Type type{};
  std::array<uint64_t, 4> dims{1, 1, 1, 1};  ///< dims[0] is the row length, as in the file
  uint32_t n_dims = 0;
  std::span<const std::byte> data;  ///< inside the mapping
  uint64_t n_values() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

// Limits that no real file comes near. They bound the memory that a hostile one can ask for.
inline constexpr uint64_t kMaxKeys = 1 << 16;
inline constexpr uint64_t kMaxKeyBytes = 65535;  ///< the specification's
inline constexpr uint64_t kMaxTensors = 1 << 20;
inline constexpr uint64_t kMaxNameBytes = 64;  ///< the specification's, of a tensor name
inline constexpr uint32_t kMaxArrayDepth = 4;  ///< arrays of arrays of …
inline constexpr uint64_t kMaxInnerArrays = 1 << 16;
inline constexpr uint64_t kMaxAlignment = 1 << 30;
inline constexpr uint64_t kDefaultAlignment = 32;

/// An open GGUF file (all parts of a split one), mapped and checked: every count, offset, length,
/// type, alignment, dimension product, string, duplicate key or tensor name and overlap was
/// compared with the file before use.
class File {
 public:
  /// Opens `path`; for a split file any part opens the whole, and the metadata is that of the first
  /// part. kRefused errors carry the byte offset and the field; a file that cannot be opened at all
  /// is kFailed.
  static Result<File> open(Env& env, const std::string& path);
  /// Reads one part from memory that outlives the File (tests, fuzzing). `split.*` keys are not
  /// followed.
  static Result<File> parse(std::span<const std::byte> bytes, std::string name);

  const std::string& path() const;  ///< as it was opened
  std::span<const std::string> part_paths() const;
  uint32_t version() const;
  uint64_t size_bytes() const;                 ///< of all parts
  std::span<const KeyValue> metadata() const;  ///< in the order of the file
  std::span<const Tensor> tensors() const;     ///< in the order of the files
  /// Gives back the memory of bytes of a tensor that will hardly be read again.
  void forget(std::span<const std::byte> bytes) const;

  const Value* find(std::string_view key) const;      ///< null if absent
  const Tensor* tensor(std::string_view name) const;  ///< null if absent

  // Typed look-ups. Absent: `fallback` (optional keys) or a kRefused error naming the key (required
  // ones). A value of another kind is always a kRefused error that names the key, its type and the
  // type needed; numbers convert where no value is lost (4096.0 is an unsigned integer, 0.5 and -1
  // are none). NaN and infinities pass through get_float.
  Result<uint64_t> get_uint(std::string_view key) const;
  Result<uint64_t> get_uint(std::string_view key, uint64_t fallback) const;
  Result<double> get_float(std::string_view key) const;
  Result<double> get_float(std::string_view key, double fallback) const;
  Result<bool> get_bool(std::string_view key, bool fallback) const;
  Result<std::string_view> get_string(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key, std::string_view fallback) const;
  /// Null if absent. `element` names the kind: any integer type answers for an integer type, any
  /// number for a float.
  Result<const Array*> get_array(std::string_view key, ValueType element) const;

 private:
  friend class Parser;
  struct State;
  explicit File(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace ondol::gguf
