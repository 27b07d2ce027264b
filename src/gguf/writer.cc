#include "gguf/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "gguf/text.h"

namespace ondol::gguf {
namespace {

uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

template <class Strings>
std::string encode_strings(const Strings& values) {
  std::string body;
  for (const std::string_view text : values) {
    const uint64_t length = text.size();
    body.append(reinterpret_cast<const char*>(&length), sizeof length);
    body += text;
  }
  return body;
}

std::string encode_string(std::string_view text) { return encode_strings(std::array{text}); }

}  // namespace

Writer Writer::copy_of(const File& file) {
  Writer writer(file.version());
  for (const KeyValue& item : file.metadata()) {  // unique already, so not through set()
    if (item.key.starts_with("split.")) continue;
    writer.keys_.push_back({std::string(item.key), item.value.type, encode(item.value)});
  }
  for (const Tensor& tensor : file.tensors()) {
    writer.tensors_.push_back({std::string(tensor.name),
                               tensor.type,
                               {tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims},
                               tensor.data});
  }
  writer.sources_.push_back(file);
  return writer;
}

std::string Writer::array_head(ValueType element, uint64_t size) {
  return bytes_of(static_cast<uint32_t>(element)) + bytes_of(size);
}

std::string Writer::encode(const Array& array) {
  std::string bytes = array_head(array.type(), array.size());
  for (uint64_t i = 0; i < array.size(); ++i) {
    if (array.type() == ValueType::kString) {
      bytes += encode_string(array.at_string(i));
    } else if (array.type() == ValueType::kArray) {
      bytes += encode(array.at_array(i));
    } else if (array.type() == ValueType::kF32) {
      bytes += bytes_of(static_cast<float>(array.at_float(i)));
    } else if (array.type() == ValueType::kF64) {
      bytes += bytes_of(array.at_float(i));
    } else {
      bytes += bytes_of(array.at_uint(i)).substr(0, type_size(array.type()));
    }
  }
  return bytes;
}

std::string Writer::encode(const Value& value) {
  if (const auto* text = std::get_if<std::string_view>(&value.data)) return encode_string(*text);
  if (const auto* array = std::get_if<Array>(&value.data)) return encode(*array);
  if (const auto* truth = std::get_if<bool>(&value.data)) return bytes_of(*truth);
  if (const auto* number = std::get_if<double>(&value.data)) {
    return value.type == ValueType::kF32 ? bytes_of(static_cast<float>(*number))
                                         : bytes_of(*number);
  }
  // Little-endian: the low bytes come first, for negative numbers too.
  const auto* number = std::get_if<int64_t>(&value.data);
  const std::string wide =
      number != nullptr ? bytes_of(*number) : bytes_of(std::get<uint64_t>(value.data));
  return wide.substr(0, type_size(value.type));
}

Writer& Writer::set(std::string_view key, std::string_view text) {
  return set_raw(key, ValueType::kString, encode_string(text));
}

Writer& Writer::set(std::string_view key, const Value& value) {
  return set_raw(key, value.type, encode(value));
}

Writer& Writer::set_bools(std::string_view key, std::span<const uint8_t> values) {
  return set_array_raw(key, ValueType::kBool, values.size(), as_text(std::as_bytes(values)));
}

Writer& Writer::set_strings(std::string_view key, std::span<const std::string> values) {
  return set_array_raw(key, ValueType::kString, values.size(), encode_strings(values));
}

Writer& Writer::set_strings(std::string_view key, std::span<const std::string_view> values) {
  return set_array_raw(key, ValueType::kString, values.size(), encode_strings(values));
}

Writer& Writer::set_array_raw(std::string_view key, ValueType element, uint64_t size,
                              std::string_view body) {
  return set_raw(key, ValueType::kArray, array_head(element, size).append(body));
}

Writer& Writer::set_raw(std::string_view key, ValueType type, std::string value) {
  const auto found = std::ranges::find(keys_, key, &Key::name);
  if (found != keys_.end()) {
    found->type = type;
    found->value = std::move(value);
  } else {
    keys_.push_back({std::string(key), type, std::move(value)});
  }
  return *this;
}

Writer& Writer::erase(std::string_view key) {
  std::erase_if(keys_, [&](const Key& each) { return each.name == key; });
  return *this;
}

Writer& Writer::add_tensor(std::string_view name, quant::Type type, std::vector<uint64_t> dims,
                           std::span<const std::byte> data) {
  NewTensor tensor{std::string(name), type, std::move(dims), data};
  const auto found = std::ranges::find(tensors_, name, &NewTensor::name);
  if (found != tensors_.end()) {
    *found = std::move(tensor);
  } else {
    tensors_.push_back(std::move(tensor));
  }
  return *this;
}

Writer& Writer::drop_tensor(std::string_view name) {
  std::erase_if(tensors_, [&](const NewTensor& each) { return each.name == name; });
  return *this;
}

Result<uint64_t> Writer::alignment() const {
  const auto found = std::ranges::find(keys_, "general.alignment", &Key::name);
  if (found == keys_.end()) return kDefaultAlignment;
  uint64_t value = 0;
  if (found->type == ValueType::kU32) {
    for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(found->value[i]);
  }
  if (value < 8 || value > kMaxAlignment || !std::has_single_bit(value)) {
    return usage_error(
        fmt::format("the key general.alignment has to be a u32 and a power of two from 8 to {}",
                    kMaxAlignment));
  }
  return value;
}

Result<void> Writer::check() const {
  for (const Key& key : keys_) {
    if (key.name.empty() || key.name.size() > kMaxKeyBytes || !is_utf8(key.name)) {
      return usage_error(fmt::format("'{}' cannot be a key of a GGUF file", printable(key.name)));
    }
  }
  for (const NewTensor& tensor : tensors_) {
    const std::string name = printable(tensor.name);
    if (tensor.name.empty() || tensor.name.size() > kMaxNameBytes || !is_utf8(tensor.name)) {
      return usage_error(
          fmt::format("'{}' cannot be the name of a tensor: 1 to {} bytes", name, kMaxNameBytes));
    }
    const quant::Format* format = quant::find_format(tensor.type);
    if (format == nullptr) {
      return usage_error(fmt::format("tensor '{}': type {} does not exist", name,
                                     static_cast<uint32_t>(tensor.type)));
    }
    if (tensor.dims.size() > 4 || std::ranges::find(tensor.dims, 0u) != tensor.dims.end()) {
      return usage_error(fmt::format("tensor '{}': at most 4 dimensions, none of them 0", name));
    }
    const uint64_t row = tensor.dims.empty() ? 1 : tensor.dims[0];
    uint64_t bytes = row / format->block_values * format->block_bytes;
    bool wraps = row > UINT64_MAX / format->block_bytes;
    for (size_t d = 1; d < tensor.dims.size(); ++d)
      wraps |= __builtin_mul_overflow(bytes, tensor.dims[d], &bytes);
    if (wraps || row % format->block_values != 0 || bytes != tensor.data.size()) {
      return usage_error(
          fmt::format("tensor '{}': {} bytes of data are not what its dimensions take in type {}",
                      name, tensor.data.size(), format->name));
    }
  }
  return {};
}

std::string Writer::head(uint64_t alignment) const {
  std::string bytes = "GGUF" + bytes_of(version_) + bytes_of(uint64_t{tensors_.size()}) +
                      bytes_of(uint64_t{keys_.size()});
  for (const Key& key : keys_) {
    bytes += encode_string(key.name);
    bytes += bytes_of(static_cast<uint32_t>(key.type));
    bytes += key.value;
  }
  uint64_t offset = 0;
  for (const NewTensor& tensor : tensors_) {
    bytes += encode_string(tensor.name);
    bytes += bytes_of(static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) bytes += bytes_of(dim);
    bytes += bytes_of(static_cast<uint32_t>(tensor.type));
    bytes += bytes_of(offset);
    offset = round_up(offset + tensor.data.size(), alignment);
  }
  return bytes;
}

/// Hands the file to `append` piece by piece.
template <class Append>
Result<void> Writer::emit(Append append) const {
  if (auto ok = check(); !ok) return ok;
  const auto align = alignment();
  if (!align) return propagate(align);
  const std::string zeros(std::min<uint64_t>(*align, 1 << 16), '\0');
  const auto pad = [&](uint64_t written) -> Result<void> {
    for (uint64_t gap = round_up(written, *align) - written; gap > 0;) {
      const uint64_t step = std::min<uint64_t>(gap, zeros.size());
      if (auto ok = append(std::as_bytes(std::span(zeros).first(step))); !ok) return ok;
      gap -= step;
    }
    return {};
  };
  const std::string top = head(*align);
  if (auto ok = append(std::as_bytes(std::span(top))); !ok) return ok;
  uint64_t before = top.size();
  for (const NewTensor& tensor : tensors_) {
    if (auto ok = pad(before); !ok) return ok;
    if (auto ok = append(tensor.data); !ok) return ok;
    before = tensor.data.size();
  }
  return tensors_.empty() ? Result<void>{} : pad(before);
}

Result<std::string> Writer::to_bytes() const {
  std::string bytes;
  auto ok = emit([&](std::span<const std::byte> piece) -> Result<void> {
    bytes += as_text(piece);
    return {};
  });
  if (!ok) return propagate(std::move(ok));
  return bytes;
}

Result<void> Writer::write(Env& env, const std::string& path) const {
  const std::string part = path + ".part";
  const auto fill = [&]() -> Result<void> {
    auto file = env.open_writable(part, WriteMode::kTruncate);
    if (!file) return propagate(std::move(file));
    auto ok = emit([&](std::span<const std::byte> piece) { return (*file)->append(piece); });
    if (!ok) return ok;
    if (ok = (*file)->sync(); !ok) return ok;
    if (ok = (*file)->close(); !ok) return ok;
    return env.rename(part, path);
  };
  Result<void> done = fill();
  // The first error is the one to report; that the part may stay behind as well is no news then.
  if (!done && env.info(part)) static_cast<void>(env.remove(part));
  return done;
}

}  // namespace ondol::gguf
