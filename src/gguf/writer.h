// Thread rule: a Writer is used from one thread at a time.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"

namespace ondol::gguf {

/// Puts a GGUF file (version 3, or 2) together and writes it. Keys and tensors keep the order in
/// which they were first set. Tensor data are not copied: they stay with the caller until write()
/// has returned.
///
///   Writer w;
///   w.set("general.architecture", "llama").set("llama.block_count", 2u);
///   w.add_tensor("output_norm.weight", type, {64}, bytes);
///   auto ok = w.write(env, "model.gguf");
class Writer {
 public:
  explicit Writer(uint32_t version = 3) : version_(version) {}

  /// All keys and tensors of a file, to be changed and written again; it stays open as long as the
  /// Writer lives. A split file becomes a single one (its split.* keys are left out).
  static Writer copy_of(const File& file);

  /// Sets a key, in place of an earlier value of it. The C++ type decides the type in the file:
  /// (u)int8_t … (u)int64_t, float, double, bool, anything that is text.
  template <class T>
    requires std::integral<T> || std::floating_point<T>
  Writer& set(std::string_view key, T value) {
    return set_raw(key, type_of<T>(), bytes_of(value));
  }
  Writer& set(std::string_view key, std::string_view text);
  Writer& set(std::string_view key, const char* text) { return set(key, std::string_view(text)); }
  Writer& set(std::string_view key, const std::string& text) {
    return set(key, std::string_view(text));
  }
  Writer& set(std::string_view key, const Value& value);  ///< as it was read

  /// An array of numbers (from anything contiguous), or of bools as uint8_t 0 and 1 with
  /// `set_bools`.
  template <class T>
    requires(std::integral<T> || std::floating_point<T>) && (!std::same_as<T, bool>)
  Writer& set_array(std::string_view key, std::span<const T> values) {
    return set_array_raw(key, type_of<T>(), values.size(), as_text(std::as_bytes(values)));
  }
  template <class T>
  Writer& set_array(std::string_view key, const std::vector<T>& values) {
    return set_array(key, std::span<const T>(values));
  }
  /// The other kinds of lists: truth values (0 or 1), strings.
  Writer& set_bools(std::string_view key, std::span<const uint8_t> values);
  Writer& set_strings(std::string_view key, std::span<const std::string> values);
  Writer& set_strings(std::string_view key, std::span<const std::string_view> values);
  /// An array of arrays of numbers, which may differ in length.
  template <class T>
  Writer& set_arrays(std::string_view key, const std::vector<std::vector<T>>& rows) {
    std::string body;
    for (const auto& row : rows) {
      body += array_head(type_of<T>(), row.size());
      body += as_text(std::as_bytes(std::span<const T>(row)));
    }
    return set_array_raw(key, ValueType::kArray, rows.size(), body);
  }
  Writer& erase(std::string_view key);  ///< nothing happens if it is not there

  /// Adds a tensor, or replaces the one of that name. dims[0] is the row length; 1 to 4 dimensions.
  Writer& add_tensor(std::string_view name, quant::Type type, std::vector<uint64_t> dims,
                     std::span<const std::byte> data);
  Writer& drop_tensor(std::string_view name);  ///< nothing happens if it is not there

  /// Writes under `path` + ".part" and renames it when every byte is on the disk: a file under its
  /// final name is a whole one. Usage error if a tensor's data do not match its type and
  /// dimensions, or a name or the alignment (key general.alignment, 32 if not set) is one that the
  /// reader would refuse. On any error the part is removed.
  Result<void> write(Env& env, const std::string& path) const;
  /// The same bytes in memory (tests).
  Result<std::string> to_bytes() const;

 private:
  struct Key {
    std::string name;
    ValueType type;
    std::string value;  // as in the file
  };
  struct NewTensor {
    std::string name;
    quant::Type type;
    std::vector<uint64_t> dims;
    std::span<const std::byte> data;
  };

  template <class T>
  static constexpr ValueType type_of() {
    if constexpr (std::same_as<T, bool>) return ValueType::kBool;
    if constexpr (std::floating_point<T>) return sizeof(T) == 4 ? ValueType::kF32 : ValueType::kF64;
    constexpr bool kSigned = std::is_signed_v<T>;
    switch (sizeof(T)) {
      case 1:
        return kSigned ? ValueType::kI8 : ValueType::kU8;
      case 2:
        return kSigned ? ValueType::kI16 : ValueType::kU16;
      case 4:
        return kSigned ? ValueType::kI32 : ValueType::kU32;
      default:
        return kSigned ? ValueType::kI64 : ValueType::kU64;
    }
  }
  template <class T>
  static std::string bytes_of(T value) {
    return std::string(as_text(std::as_bytes(std::span(&value, 1))));
  }
  static std::string_view as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  static std::string array_head(ValueType element, uint64_t size);
  static std::string encode(const Array& array);
  static std::string encode(const Value& value);
  Writer& set_raw(std::string_view key, ValueType type, std::string value);
  Writer& set_array_raw(std::string_view key, ValueType element, uint64_t size,
                        std::string_view body);

  Result<uint64_t> alignment() const;
  Result<void> check() const;
  std::string head(uint64_t alignment) const;
  template <class Append>
  Result<void> emit(Append append) const;

  uint32_t version_;
  std::vector<Key> keys_;
  std::vector<NewTensor> tensors_;
  std::vector<File> sources_;  // keeps the mappings of copied tensors
};

}  // namespace ondol::gguf
