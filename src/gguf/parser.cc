#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "gguf/state.h"
#include "gguf/text.h"

namespace ondol::gguf {
namespace {

static_assert(std::endian::native == std::endian::little,
              "GGUF values are read as they lie in the file");

constexpr uint64_t kHeaderBytes = 24;     // magic, version, two counts
constexpr uint64_t kMinKeyBytes = 13;     // key length, value type, one byte of value
constexpr uint64_t kMinTensorBytes = 24;  // name length, number of dimensions, type, offset
constexpr uint64_t kMinStringBytes = 8;   // its length
constexpr uint64_t kMinArrayBytes = 12;   // element type and count
constexpr std::string_view kDamaged = "the file is damaged or cut short; fetch it again";

bool starts_with(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

/// What a file that is no GGUF seems to be, as a sentence that says what to do.
std::string_view guess_other_format(std::span<const std::byte> bytes) {
  if (bytes.empty()) return "the file is empty; fetch it again";
  if (starts_with(bytes, "FUGG")) {
    return "the magic is reversed: the byte order is not little-endian; convert the model again";
  }
  if (starts_with(bytes, "version https://git-lfs")) {
    return "this is a Git LFS pointer, not the model itself; fetch it with `git lfs pull`";
  }
  if (starts_with(bytes, "<!") || starts_with(bytes, "<html")) {
    return "this is a web page, not a model; the download link was wrong";
  }
  for (const auto* old : {"lmgg", "tjgg", "fmgg", "algg", "GGML"}) {
    if (starts_with(bytes, old)) return "this is a format older than GGUF; convert the model again";
  }
  return "this is not a GGUF file (it does not begin with `GGUF`)";
}

}  // namespace

bool Parser::refuse(uint64_t at, std::string_view field, std::string_view what) {
  const std::string subject = subject_.empty() ? "" : fmt::format(" of '{}'", printable(subject_));
  error_ =
      Error{ErrorKind::kRefused, fmt::format("'{}' was refused at byte {}, {}{}: {}",
                                             printable(name_, 1024), at, field, subject, what)};
  return false;
}

bool Parser::cut_short(std::string_view field, uint64_t needed) {
  return refuse(
      at_, field,
      fmt::format("it takes {} bytes and only {} are left; {}", needed, left(), kDamaged));
}

template <class T>
bool Parser::number(std::string_view field, T& out) {
  if (left() < sizeof(T)) return cut_short(field, sizeof(T));
  std::memcpy(&out, bytes_.data() + at_, sizeof(T));
  at_ += sizeof(T);
  return true;
}

template <class T, class Stored>
bool Parser::number_value(Value& out) {
  T raw{};
  if (!number("value", raw)) return false;
  out.data = static_cast<Stored>(raw);
  return true;
}

bool Parser::string(std::string_view field, uint64_t limit, std::string_view& out) {
  const uint64_t length_at = at_;
  uint64_t length = 0;
  if (!number(field, length)) return false;
  if (length > left()) {
    return refuse(
        length_at, field,
        fmt::format("a length of {} bytes where only {} are left; {}", length, left(), kDamaged));
  }
  if (length > limit) {
    return refuse(length_at, field,
                  fmt::format("a length of {} bytes; at most {} are allowed", length, limit));
  }
  out = {reinterpret_cast<const char*>(bytes_.data()) + at_, static_cast<size_t>(length)};
  at_ += length;
  return true;
}

bool Parser::name(std::string_view field, uint64_t limit, std::string_view& out) {
  const uint64_t begin = at_;
  if (!string(field, limit, out)) return false;
  if (out.empty()) return refuse(begin, field, "it is empty; every name has at least one byte");
  if (!is_utf8(out)) {
    return refuse(begin, field, fmt::format("'{}' is not valid UTF-8", printable(out)));
  }
  return true;
}

bool Parser::value_type(std::string_view field, ValueType& out) {
  const uint64_t begin = at_;
  uint32_t raw = 0;
  if (!number(field, raw)) return false;
  if (raw > static_cast<uint32_t>(ValueType::kF64)) {
    return refuse(begin, field,
                  fmt::format("type {} does not exist (the last one is 12); {}", raw, kDamaged));
  }
  out = static_cast<ValueType>(raw);
  return true;
}

Result<Part> Parser::run() {
  if (!parse()) return std::unexpected(std::move(error_));
  return std::move(part_);
}

bool Parser::parse() {
  uint64_t n_tensors = 0;
  uint64_t n_keys = 0;
  if (!header(n_tensors, n_keys) || !metadata(n_keys)) return false;
  uint64_t align = 0;
  return alignment(align) && tensor_table(n_tensors) && unique_names() && place_tensors(align) &&
         no_overlap();
}

bool Parser::header(uint64_t& n_tensors, uint64_t& n_keys) {
  if (!magic() || !version()) return false;
  if (bytes_.size() < kHeaderBytes) return cut_short("header", kHeaderBytes - at_);
  if (!number("tensor count", n_tensors) || !number("key count", n_keys)) return false;
  const uint64_t tensors_at = 8;
  const uint64_t keys_at = 16;
  if (n_tensors > left() / kMinTensorBytes) {
    return refuse(tensors_at, "tensor count",
                  fmt::format("{} tensors cannot fit in the {} bytes that follow; {}", n_tensors,
                              left(), kDamaged));
  }
  if (n_keys > left() / kMinKeyBytes) {
    return refuse(keys_at, "key count",
                  fmt::format("{} keys cannot fit in the {} bytes that follow; {}", n_keys, left(),
                              kDamaged));
  }
  if (n_tensors > kMaxTensors) {
    return refuse(tensors_at, "tensor count",
                  fmt::format("{} tensors; at most {} are read", n_tensors, kMaxTensors));
  }
  if (n_keys > kMaxKeys) {
    return refuse(keys_at, "key count",
                  fmt::format("{} keys; at most {} are read", n_keys, kMaxKeys));
  }
  return true;
}

bool Parser::magic() {
  if (!starts_with(bytes_, "GGUF")) return refuse(0, "magic", guess_other_format(bytes_));
  at_ = 4;
  return true;
}

bool Parser::version() {
  uint32_t raw = 0;
  if (!number("version", raw)) return false;
  if (raw == 1) {
    return refuse(4, "version",
                  "version 1 is no longer read (its counts have 32 bits); convert the model again");
  }
  // The number of a big-endian file has its small value in the highest byte.
  if (raw != 0 && (raw & 0xFFFF) == 0) {
    return refuse(4, "version",
                  "the byte order is big-endian and only little-endian files are read; fetch the "
                  "little-endian "
                  "variant of this model");
  }
  if (raw != 2 && raw != 3) {
    return refuse(4, "version",
                  fmt::format("version {} is not known; versions 2 and 3 are read", raw));
  }
  part_.version = raw;
  return true;
}

bool Parser::metadata(uint64_t n_keys) {
  part_.metadata.reserve(n_keys);
  for (uint64_t i = 0; i < n_keys; ++i) {
    KeyValue& item = part_.metadata.emplace_back();
    subject_ = {};
    if (!name("key", kMaxKeyBytes, item.key)) return false;
    subject_ = item.key;
    ValueType type{};
    if (!value_type("value type", type) || !value(type, item.value)) return false;
  }
  subject_ = {};
  return true;
}

bool Parser::value(ValueType type, Value& out) {
  out.type = type;
  switch (type) {
    case ValueType::kU8:
      return number_value<uint8_t, uint64_t>(out);
    case ValueType::kU16:
      return number_value<uint16_t, uint64_t>(out);
    case ValueType::kU32:
      return number_value<uint32_t, uint64_t>(out);
    case ValueType::kU64:
      return number_value<uint64_t, uint64_t>(out);
    case ValueType::kI8:
      return number_value<int8_t, int64_t>(out);
    case ValueType::kI16:
      return number_value<int16_t, int64_t>(out);
    case ValueType::kI32:
      return number_value<int32_t, int64_t>(out);
    case ValueType::kI64:
      return number_value<int64_t, int64_t>(out);
    case ValueType::kF32:
      return number_value<float, double>(out);
    case ValueType::kF64:
      return number_value<double, double>(out);
    case ValueType::kBool: {
      uint8_t raw = 0;
      if (!number("value", raw)) return false;
      if (raw > 1) return refuse(at_ - 1, "value", fmt::format("a bool is 0 or 1, not {}", raw));
      out.data = raw == 1;
      return true;
    }
    case ValueType::kString: {
      std::string_view text;
      if (!string("value", bytes_.size(), text)) return false;
      out.data = text;
      return true;
    }
    case ValueType::kArray:
      return array(out.data.emplace<Array>(), 1);
  }
  return refuse(at_, "value type", kDamaged);
}

bool Parser::array(Array& out, uint32_t depth) {
  if (depth > kMaxArrayDepth) {
    return refuse(
        at_, "array",
        fmt::format("arrays inside arrays more than {} deep are not read", kMaxArrayDepth));
  }
  if (!value_type("element type", out.type_)) return false;
  const uint64_t count_at = at_;
  if (!number("array length", out.size_)) return false;
  const uint64_t element = out.type_ == ValueType::kString  ? kMinStringBytes
                           : out.type_ == ValueType::kArray ? kMinArrayBytes
                                                            : type_size(out.type_);
  if (out.size_ > left() / element) {
    return refuse(count_at, "array length",
                  fmt::format("{} elements of type {} cannot fit in the {} bytes that follow; {}",
                              out.size_, type_name(out.type_), left(), kDamaged));
  }
  out.data_ = bytes_.data() + at_;
  if (out.type_ == ValueType::kString) return array_strings(out);
  if (out.type_ == ValueType::kArray) return array_arrays(out, depth);
  if (out.type_ == ValueType::kBool) {
    for (uint64_t i = 0; i < out.size_; ++i) {
      if (out.data_[i] > std::byte{1}) return refuse(at_ + i, "array element", "a bool is 0 or 1");
    }
  }
  at_ += out.size_ * element;
  return true;
}

bool Parser::array_strings(Array& out) {
  const uint64_t begin = at_;
  out.starts_.reserve(out.size_ + 1);
  for (uint64_t i = 0; i < out.size_; ++i) {
    out.starts_.push_back(static_cast<uint32_t>(at_ - begin));
    std::string_view text;
    if (!string("array element", bytes_.size(), text)) return false;
    if (at_ - begin > UINT32_MAX)
      return refuse(begin, "array", "strings of 4 GiB and more are not read");
  }
  out.starts_.push_back(static_cast<uint32_t>(at_ - begin));
  return true;
}

bool Parser::array_arrays(Array& out, uint32_t depth) {
  inner_arrays_ += out.size_;
  if (inner_arrays_ > kMaxInnerArrays) {
    return refuse(at_, "array length",
                  fmt::format("more than {} arrays inside arrays are not read", kMaxInnerArrays));
  }
  out.arrays_.resize(out.size_);
  return std::ranges::all_of(out.arrays_, [&](Array& inner) { return array(inner, depth + 1); });
}

bool Parser::alignment(uint64_t& out) {
  out = kDefaultAlignment;
  const auto item = std::ranges::find(part_.metadata, "general.alignment", &KeyValue::key);
  if (item == part_.metadata.end()) return true;
  subject_ = item->key;
  const auto at =
      static_cast<uint64_t>(reinterpret_cast<const std::byte*>(item->key.data()) - bytes_.data());
  const auto* number = std::get_if<uint64_t>(&item->value.data);
  if (number == nullptr) {
    return refuse(at, "value",
                  fmt::format("its type is {}; it has to be u32", type_name(item->value.type)));
  }
  if (*number < 8 || *number > kMaxAlignment || !std::has_single_bit(*number)) {
    return refuse(at, "value",
                  fmt::format("an alignment of {}; it has to be a power of two from 8 to {}",
                              *number, kMaxAlignment));
  }
  out = *number;
  subject_ = {};
  return true;
}

bool Parser::tensor_table(uint64_t n_tensors) {
  if (n_tensors > left() / kMinTensorBytes) {
    return refuse(8, "tensor count",
                  fmt::format("{} tensors cannot fit in the {} bytes behind the keys; {}",
                              n_tensors, left(), kDamaged));
  }
  part_.tensors.reserve(n_tensors);
  entries_.reserve(n_tensors);
  for (uint64_t i = 0; i < n_tensors; ++i) {
    if (!tensor_entry(part_.tensors.emplace_back(), entries_.emplace_back())) return false;
  }
  subject_ = {};
  return true;
}

bool Parser::tensor_entry(Tensor& tensor, Entry& entry) {
  entry.at = at_;
  subject_ = {};
  if (!name("tensor name", kMaxNameBytes, tensor.name)) return false;
  subject_ = tensor.name;
  const uint64_t count_at = at_;
  if (!number("number of dimensions", tensor.n_dims)) return false;
  if (tensor.n_dims > tensor.dims.size()) {
    return refuse(count_at, "number of dimensions",
                  fmt::format("{}; at most 4 are allowed", tensor.n_dims));
  }
  for (uint32_t d = 0; d < tensor.n_dims; ++d) {
    if (!number("dimension", tensor.dims[d])) return false;
    if (tensor.dims[d] == 0)
      return refuse(at_ - 8, "dimension", "it is 0; a tensor has at least one value");
  }
  const uint64_t type_at = at_;
  uint32_t type = 0;
  if (!number("tensor type", type)) return false;
  tensor.type = static_cast<quant::Type>(type);
  if (!tensor_size(tensor, entry, type_at)) return false;
  return number("tensor offset", entry.offset);
}

bool Parser::tensor_size(const Tensor& tensor, Entry& entry, uint64_t type_at) {
  const quant::Format* format = quant::find_format(tensor.type);
  if (format == nullptr) {
    return refuse(type_at, "tensor type",
                  fmt::format("type {} is not supported (unknown, or removed from the format)",
                              static_cast<uint32_t>(tensor.type)));
  }
  if (tensor.dims[0] % format->block_values != 0) {
    return refuse(type_at, "row length",
                  fmt::format("{} is no multiple of {}, the block of type {}", tensor.dims[0],
                              format->block_values, format->name));
  }
  uint64_t values = 1;
  uint64_t bytes = 0;
  bool wraps = __builtin_mul_overflow(tensor.dims[0] / format->block_values,
                                      uint64_t{format->block_bytes}, &bytes);
  wraps |= __builtin_mul_overflow(values, tensor.dims[0], &values);
  for (size_t d = 1; d < tensor.dims.size(); ++d) {
    wraps |= __builtin_mul_overflow(bytes, tensor.dims[d], &bytes);
    wraps |= __builtin_mul_overflow(values, tensor.dims[d], &values);
  }
  if (wraps || bytes > bytes_.size()) {
    return refuse(
        type_at, "dimensions",
        fmt::format(
            "{} x {} x {} x {} values of type {} take more than the {} bytes of the file; {}",
            tensor.dims[0], tensor.dims[1], tensor.dims[2], tensor.dims[3], format->name,
            bytes_.size(), kDamaged));
  }
  entry.bytes = bytes;
  return true;
}

bool Parser::unique_names() {
  // Sorting instead of hashing: a file made to collide costs nothing extra.
  const auto first_duplicate = [](auto names) -> const char* {
    std::ranges::sort(names, [](std::string_view a, std::string_view b) {
      const int order = a.compare(b);
      return order < 0 || (order == 0 && a.data() < b.data());
    });
    const auto twin = std::ranges::adjacent_find(names);
    return twin == names.end() ? nullptr : std::next(twin)->data();
  };
  const auto check = [&](const auto& items, auto member, std::string_view field) {
    std::vector<std::string_view> names;
    names.reserve(items.size());
    for (const auto& item : items) names.push_back(item.*member);
    const char* second = first_duplicate(std::move(names));
    if (second == nullptr) return true;
    const auto item =
        std::ranges::find(items, second, [&](const auto& each) { return (each.*member).data(); });
    subject_ = (*item).*member;
    const auto at =
        static_cast<uint64_t>(reinterpret_cast<const std::byte*>(second) - bytes_.data());
    return refuse(at, field, "it stands in the file twice, and neither may win");
  };
  return check(part_.metadata, &KeyValue::key, "key") &&
         check(part_.tensors, &Tensor::name, "tensor name");
}

bool Parser::place_tensors(uint64_t alignment) {
  if (part_.tensors.empty()) return true;
  // at_ stays below 2^63 (a file's size), so the sum cannot wrap.
  const uint64_t data_at = (at_ + alignment - 1) / alignment * alignment;
  const uint64_t data_bytes = data_at < bytes_.size() ? bytes_.size() - data_at : 0;
  for (size_t i = 0; i < part_.tensors.size(); ++i) {
    Tensor& tensor = part_.tensors[i];
    const Entry& entry = entries_[i];
    subject_ = tensor.name;
    if (entry.offset % alignment != 0) {
      return refuse(entry.at, "tensor offset",
                    fmt::format("{} is no multiple of the alignment {}", entry.offset, alignment));
    }
    if (entry.offset > data_bytes || entry.bytes > data_bytes - entry.offset) {
      return refuse(
          entry.at, "tensor offset",
          fmt::format(
              "{} bytes at offset {} of the data section, which begins at byte {}, reach past the "
              "end of the file at {}; {}",
              entry.bytes, entry.offset, data_at, bytes_.size(), kDamaged));
    }
    tensor.data = bytes_.subspan(data_at + entry.offset, entry.bytes);
  }
  subject_ = {};
  return true;
}

bool Parser::no_overlap() {
  std::vector<uint32_t> order(part_.tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [&](uint32_t i) { return std::pair(entries_[i].offset, i); });
  for (size_t i = 1; i < order.size(); ++i) {
    const Entry& before = entries_[order[i - 1]];
    const Entry& entry = entries_[order[i]];
    if (entry.offset - before.offset >= before.bytes) continue;
    subject_ = part_.tensors[order[i]].name;
    return refuse(entry.at, "tensor offset",
                  fmt::format("its data lie over those of '{}'",
                              printable(part_.tensors[order[i - 1]].name)));
  }
  return true;
}

}  // namespace ondol::gguf
