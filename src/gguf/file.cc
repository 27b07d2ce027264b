#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gguf/state.h"
#include "gguf/text.h"

namespace ondol::gguf {
namespace {

/// Indices of `items` in the order of their names, to be looked up by bisection.
template <class Item>
std::vector<uint32_t> order_by(const std::vector<Item>& items, std::string_view Item::* name) {
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [&](uint32_t i) { return items[i].*name; });
  return order;
}

template <class Item>
const Item* look_up(const std::vector<Item>& items, const std::vector<uint32_t>& order,
                    std::string_view Item::* name, std::string_view wanted) {
  const auto name_of = [&](uint32_t i) { return items[i].*name; };
  const auto found = std::ranges::lower_bound(order, wanted, {}, name_of);
  return found != order.end() && name_of(*found) == wanted ? &items[*found] : nullptr;
}

std::optional<uint64_t> as_uint(const Value& value) {
  if (const auto* number = std::get_if<uint64_t>(&value.data)) return *number;
  if (const auto* number = std::get_if<int64_t>(&value.data)) {
    if (*number >= 0) return static_cast<uint64_t>(*number);
  }
  if (const auto* number = std::get_if<double>(&value.data)) {
    constexpr double kExact =
        9007199254740992.0;  // 2^53: every integer up to here is itself as a double
    if (*number >= 0 && *number <= kExact && std::floor(*number) == *number)
      return static_cast<uint64_t>(*number);
  }
  return std::nullopt;
}

std::optional<double> as_float(const Value& value) {
  constexpr int64_t kExact = int64_t{1} << 53;
  if (const auto* number = std::get_if<double>(&value.data)) return *number;
  if (const auto* number = std::get_if<uint64_t>(&value.data)) {
    if (*number <= uint64_t{kExact}) return static_cast<double>(*number);
  }
  if (const auto* number = std::get_if<int64_t>(&value.data)) {
    if (*number >= -kExact && *number <= kExact) return static_cast<double>(*number);
  }
  return std::nullopt;
}

std::string describe_value(const Value& value) {
  if (const auto* array = std::get_if<Array>(&value.data)) {
    return fmt::format("an array of {} {} values", array->size(), type_name(array->type()));
  }
  if (const auto* number = std::get_if<uint64_t>(&value.data)) return fmt::format("{}", *number);
  if (const auto* number = std::get_if<int64_t>(&value.data)) return fmt::format("{}", *number);
  if (const auto* number = std::get_if<double>(&value.data)) return fmt::format("{}", *number);
  if (const auto* truth = std::get_if<bool>(&value.data)) return fmt::format("{}", *truth);
  return "a text";
}

std::unexpected<Error> wrong_kind(const File& file, std::string_view key, const Value& value,
                                  std::string_view needed) {
  return refused(
      fmt::format("'{}' was refused, key '{}': its value is {} (type {}) where {} is needed",
                  printable(file.path(), 1024), printable(key), describe_value(value),
                  type_name(value.type), needed));
}

std::unexpected<Error> missing(const File& file, std::string_view key) {
  return refused(fmt::format("'{}' was refused: the key '{}' is missing",
                             printable(file.path(), 1024), printable(key)));
}

constexpr std::string_view kUintNeeded = "a whole number of 0 or more";

}  // namespace

std::unique_ptr<File::State> Parser::new_state() { return std::make_unique<File::State>(); }

Result<File> Parser::finish(std::unique_ptr<File::State> state) {
  state->key_order = order_by(state->metadata, &KeyValue::key);
  state->tensor_order = order_by(state->tensors, &Tensor::name);
  return File(std::shared_ptr<const File::State>(std::move(state)));
}

Result<File> File::parse(std::span<const std::byte> bytes, std::string name) {
  auto part = Parser(bytes, name).run();
  if (!part) return propagate(std::move(part));
  auto state = std::make_unique<State>();
  state->part_paths = {name};
  state->path = std::move(name);
  state->version = part->version;
  state->size = bytes.size();
  state->metadata = std::move(part->metadata);
  state->tensors = std::move(part->tensors);
  return Parser::finish(std::move(state));
}

const std::string& File::path() const { return state_->path; }
std::span<const std::string> File::part_paths() const { return state_->part_paths; }
uint32_t File::version() const { return state_->version; }
uint64_t File::size_bytes() const { return state_->size; }
std::span<const KeyValue> File::metadata() const { return state_->metadata; }
std::span<const Tensor> File::tensors() const { return state_->tensors; }
void File::forget(std::span<const std::byte> bytes) const {
  for (const auto& map : state_->maps) {
    const auto all = map->bytes();
    if (bytes.data() >= all.data() && bytes.data() < all.data() + all.size()) map->forget(bytes);
  }
}

const Value* File::find(std::string_view key) const {
  const KeyValue* item = look_up(state_->metadata, state_->key_order, &KeyValue::key, key);
  return item == nullptr ? nullptr : &item->value;
}

const Tensor* File::tensor(std::string_view name) const {
  return look_up(state_->tensors, state_->tensor_order, &Tensor::name, name);
}

Result<uint64_t> File::get_uint(std::string_view key) const {
  if (find(key) == nullptr) return missing(*this, key);
  return get_uint(key, 0);
}

Result<uint64_t> File::get_uint(std::string_view key, uint64_t fallback) const {
  const Value* value = find(key);
  if (value == nullptr) return fallback;
  const auto number = as_uint(*value);
  if (!number) return wrong_kind(*this, key, *value, kUintNeeded);
  return *number;
}

Result<double> File::get_float(std::string_view key) const {
  if (find(key) == nullptr) return missing(*this, key);
  return get_float(key, 0);
}

Result<double> File::get_float(std::string_view key, double fallback) const {
  const Value* value = find(key);
  if (value == nullptr) return fallback;
  const auto number = as_float(*value);
  if (!number) return wrong_kind(*this, key, *value, "a number");
  return *number;
}

Result<bool> File::get_bool(std::string_view key, bool fallback) const {
  const Value* value = find(key);
  if (value == nullptr) return fallback;
  const auto* truth = std::get_if<bool>(&value->data);
  if (truth == nullptr) return wrong_kind(*this, key, *value, "a bool");
  return *truth;
}

Result<std::string_view> File::get_string(std::string_view key) const {
  if (find(key) == nullptr) return missing(*this, key);
  return get_string(key, {});
}

Result<std::string_view> File::get_string(std::string_view key, std::string_view fallback) const {
  const Value* value = find(key);
  if (value == nullptr) return fallback;
  const auto* text = std::get_if<std::string_view>(&value->data);
  if (text == nullptr) return wrong_kind(*this, key, *value, "a text");
  return *text;
}

Result<const Array*> File::get_array(std::string_view key, ValueType element) const {
  const Value* value = find(key);
  if (value == nullptr) return nullptr;
  const auto* array = std::get_if<Array>(&value->data);
  const bool fits =
      array != nullptr &&
      (array->type() == element || (is_integer(element) && is_integer(array->type())) ||
       (is_float(element) && (is_float(array->type()) || is_integer(array->type()))));
  if (!fits)
    return wrong_kind(*this, key, *value, fmt::format("an array of {} values", type_name(element)));
  return array;
}

}  // namespace ondol::gguf
