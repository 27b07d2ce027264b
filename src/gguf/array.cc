#include <cassert>
#include <cstring>
#include <utility>

#include "gguf/gguf.h"

namespace ondol::gguf {
namespace {

template <class T>
T load(const std::byte* data, uint64_t i) {
  T value;  // the file promises no alignment inside the metadata
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

/// Element `i` of a number or bool array, converted to To.
template <class To>
To number(ValueType type, const std::byte* data, uint64_t i) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kBool:
      return static_cast<To>(load<uint8_t>(data, i));
    case ValueType::kI8:
      return static_cast<To>(load<int8_t>(data, i));
    case ValueType::kU16:
      return static_cast<To>(load<uint16_t>(data, i));
    case ValueType::kI16:
      return static_cast<To>(load<int16_t>(data, i));
    case ValueType::kU32:
      return static_cast<To>(load<uint32_t>(data, i));
    case ValueType::kI32:
      return static_cast<To>(load<int32_t>(data, i));
    case ValueType::kU64:
      return static_cast<To>(load<uint64_t>(data, i));
    case ValueType::kI64:
      return static_cast<To>(load<int64_t>(data, i));
    case ValueType::kF32:
      if constexpr (std::is_floating_point_v<To>) return static_cast<To>(load<float>(data, i));
      break;
    case ValueType::kF64:
      if constexpr (std::is_floating_point_v<To>) return static_cast<To>(load<double>(data, i));
      break;
    case ValueType::kString:
    case ValueType::kArray:
      break;
  }
  assert(false && "the array holds another kind of value");
  return To{};
}

}  // namespace

std::string_view type_name(ValueType type) {
  switch (type) {
    case ValueType::kU8:
      return "u8";
    case ValueType::kI8:
      return "i8";
    case ValueType::kU16:
      return "u16";
    case ValueType::kI16:
      return "i16";
    case ValueType::kU32:
      return "u32";
    case ValueType::kI32:
      return "i32";
    case ValueType::kF32:
      return "f32";
    case ValueType::kBool:
      return "bool";
    case ValueType::kString:
      return "string";
    case ValueType::kArray:
      return "array";
    case ValueType::kU64:
      return "u64";
    case ValueType::kI64:
      return "i64";
    case ValueType::kF64:
      return "f64";
  }
  return "unknown";
}

uint32_t type_size(ValueType type) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kBool:
      return 1;
    case ValueType::kU16:
    case ValueType::kI16:
      return 2;
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kF32:
      return 4;
    case ValueType::kU64:
    case ValueType::kI64:
    case ValueType::kF64:
      return 8;
    case ValueType::kString:
    case ValueType::kArray:
      return 0;
  }
  return 0;
}

bool is_float(ValueType type) { return type == ValueType::kF32 || type == ValueType::kF64; }

bool is_integer(ValueType type) {
  return type_size(type) != 0 && !is_float(type) && type != ValueType::kBool;
}

uint64_t Array::at_uint(uint64_t i) const {
  assert(i < size_);
  return number<uint64_t>(type_, data_, i);
}

int64_t Array::at_int(uint64_t i) const {
  assert(i < size_);
  return number<int64_t>(type_, data_, i);
}

double Array::at_float(uint64_t i) const {
  assert(i < size_);
  return number<double>(type_, data_, i);
}

std::string_view Array::at_string(uint64_t i) const {
  assert(type_ == ValueType::kString && i < size_);
  constexpr uint32_t kLengthBytes = sizeof(uint64_t);
  const auto* text = reinterpret_cast<const char*>(data_) + starts_[i] + kLengthBytes;
  return {text, starts_[i + 1] - starts_[i] - kLengthBytes};
}

const Array& Array::at_array(uint64_t i) const {
  assert(type_ == ValueType::kArray && i < size_);
  return arrays_[i];
}

}  // namespace ondol::gguf
