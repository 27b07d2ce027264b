// Thread rule: the table is constant; every function is pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ondol::quant {

/// A tensor's element type, numbered as in a GGUF file (ggml type ids).
enum class Type : uint32_t {};

/// One block format: everything the rest of the program may know of it.
struct Format {
  Type type;
  std::string_view name;  ///< as GGUF tools write it: "Q4_K"
  uint32_t block_values;  ///< values in a block; the length of a row is a multiple of it
  uint32_t block_bytes;   ///< bytes of a block
  double bits() const { return 8.0 * block_bytes / block_values; }  ///< per weight

  /// Exact values of a row of whole blocks; `out.size()` is a multiple of block_values. Null where
  /// only the size is known: such a tensor may stand in a file, but nothing can be computed with
  /// it.
  void (*dequantize)(const std::byte* blocks, std::span<float> out);
  /// Nearest blocks for a row; null where the format cannot be written yet.
  void (*quantize)(std::span<const float> values, std::byte* blocks);
};

/// All formats, in the order of their type ids.
std::span<const Format> formats();
/// The format of a type id, or null if it is unknown (or was removed from GGUF).
const Format* find_format(Type type);
/// The format of a name ("Q4_K"), or null.
const Format* find_format(std::string_view name);

}  // namespace ondol::quant
