#include "gguf/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <map>

#include "base/units.h"
#include "gguf/text.h"

namespace ondol::gguf {
namespace {

namespace json = boost::json;

constexpr uint64_t kShownElements = 8;  // of an array, in listings
constexpr uint32_t kShownDepth = 4;

std::optional<uint64_t> optional_uint(const File& file, const std::string& key) {
  if (file.find(key) == nullptr) return std::nullopt;
  const auto number = file.get_uint(key);
  return number ? std::optional(*number) : std::nullopt;
}

std::string_view optional_text(const File& file, std::string_view key) {
  return file.get_string(key, "").value_or("");
}

std::vector<TypeShare> quant_mix(const File& file) {
  std::map<quant::Type, TypeShare> shares;
  for (const Tensor& tensor : file.tensors()) {
    TypeShare& share = shares[tensor.type];
    share.type = tensor.type;
    share.name = quant::find_format(tensor.type)->name;
    share.tensors += 1;
    share.bytes += tensor.data.size();
    share.parameters += tensor.n_values();
  }
  std::vector<TypeShare> mix;
  for (const auto& [type, share] : shares) mix.push_back(share);
  std::ranges::sort(mix, [](const TypeShare& a, const TypeShare& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.type < b.type;
  });
  return mix;
}

/// A double as the shortest text that reads back as the f32 or f64 of the file.
std::string number_text(double number, bool single) {
  return single ? fmt::format("{}", static_cast<float>(number)) : fmt::format("{}", number);
}

json::value number_json(double number, bool single) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  // 0.1f is written as 0.1, not as the double next to it.
  return single ? json::value(std::stod(number_text(number, true))) : json::value(number);
}

std::string text_of(const Array& array, uint32_t depth);
json::value json_of(const Array& array, uint32_t depth);

std::string element_text(const Array& array, uint64_t i, uint32_t depth) {
  switch (array.type()) {
    case ValueType::kString:
      return fmt::format("\"{}\"", printable(array.at_string(i), 40));
    case ValueType::kArray:
      return text_of(array.at_array(i), depth + 1);
    case ValueType::kBool:
      return array.at_uint(i) != 0 ? "true" : "false";
    case ValueType::kU64:
      return fmt::format("{}", array.at_uint(i));
    case ValueType::kF32:
    case ValueType::kF64:
      return number_text(array.at_float(i), array.type() == ValueType::kF32);
    default:
      return fmt::format("{}", array.at_int(i));
  }
}

json::value element_json(const Array& array, uint64_t i, uint32_t depth) {
  switch (array.type()) {
    case ValueType::kString:
      return json::string(to_utf8(array.at_string(i)));
    case ValueType::kArray:
      return json_of(array.at_array(i), depth + 1);
    case ValueType::kBool:
      return array.at_uint(i) != 0;
    case ValueType::kU64:
      return array.at_uint(i);
    case ValueType::kF32:
    case ValueType::kF64:
      return number_json(array.at_float(i), array.type() == ValueType::kF32);
    default:
      return array.at_int(i);
  }
}

std::string text_of(const Array& array, uint32_t depth) {
  std::string text = "[";
  const uint64_t shown = depth >= kShownDepth ? 0 : std::min(array.size(), kShownElements);
  for (uint64_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + element_text(array, i, depth);
  if (shown == array.size()) return text + "]";
  return text + fmt::format("{}… {} in all]", shown > 0 ? ", " : "", with_commas(array.size()));
}

/// A short array whole; a long one as {"type", "size", "first": […]}.
json::value json_of(const Array& array, uint32_t depth) {
  constexpr uint64_t kWhole = 512;  // a value per layer stays a plain list
  const bool whole =
      array.size() <= kWhole && array.type() != ValueType::kArray && depth < kShownDepth;
  const uint64_t shown = whole                  ? array.size()
                         : depth >= kShownDepth ? 0
                                                : std::min(array.size(), kShownElements);
  json::array list;
  for (uint64_t i = 0; i < shown; ++i) list.push_back(element_json(array, i, depth));
  if (whole) return list;
  return json::object{
      {"type", type_name(array.type())}, {"size", array.size()}, {"first", std::move(list)}};
}

std::string text_of(const Value& value) {
  if (const auto* array = std::get_if<Array>(&value.data)) return text_of(*array, 0);
  if (const auto* text = std::get_if<std::string_view>(&value.data)) return printable(*text, 100);
  if (const auto* number = std::get_if<uint64_t>(&value.data)) return fmt::format("{}", *number);
  if (const auto* number = std::get_if<int64_t>(&value.data)) return fmt::format("{}", *number);
  if (const auto* number = std::get_if<double>(&value.data))
    return number_text(*number, value.type == ValueType::kF32);
  return std::get<bool>(value.data) ? "true" : "false";
}

json::value json_of(const Value& value) {
  if (const auto* array = std::get_if<Array>(&value.data)) return json_of(*array, 0);
  if (const auto* text = std::get_if<std::string_view>(&value.data))
    return json::string(to_utf8(*text));
  if (const auto* number = std::get_if<uint64_t>(&value.data)) return *number;
  if (const auto* number = std::get_if<int64_t>(&value.data)) return *number;
  if (const auto* number = std::get_if<double>(&value.data))
    return number_json(*number, value.type == ValueType::kF32);
  return std::get<bool>(value.data);
}

bool is_hyperparameter(const Description& d, std::string_view key) {
  return !d.architecture.empty() && key.size() > d.architecture.size() + 1 &&
         key.starts_with(d.architecture) && key[d.architecture.size()] == '.';
}

std::string line(std::string_view label, std::string_view value) {
  return fmt::format("{:<15}{}\n", label, value);
}

/// The template with its line ends and tabs; other control characters and broken bytes as \xNN.
std::string template_text(std::string_view text) {
  std::string out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find_first_of("\n\t", begin), text.size());
    out += printable(text.substr(begin, end - begin), text.size());
    if (end < text.size()) out += text[end];
    begin = end + 1;
  }
  return out;
}

std::string weights_text(const Description& d) {
  std::string text = line(
      "weights", fmt::format("{:.2f} bits each, {} in {} tensors", d.bits_per_weight(),
                             format_size(d.weight_bytes), with_commas(d.file.tensors().size())));
  for (const TypeShare& share : d.mix) {
    text += fmt::format("  {:<11} {:>6} tensors {:>12} {:>18} parameters\n", share.name,
                        with_commas(share.tensors), format_size(share.bytes),
                        with_commas(share.parameters));
  }
  return text;
}

std::string tokenizer_text(const Description& d) {
  if (d.tokenizer_model.empty()) return line("tokenizer", "none in the file");
  std::string text = printable(d.tokenizer_model);
  if (!d.tokenizer_pre.empty())
    text += fmt::format(", splitting rule {}", printable(d.tokenizer_pre));
  if (d.vocabulary_size) text += fmt::format(", {} tokens", with_commas(*d.vocabulary_size));
  return line("tokenizer", text);
}

std::string chat_text(const Description& d, bool whole) {
  if (!d.chat_template) return line("chat template", "none");
  std::string text =
      line("chat template", fmt::format("yes, {} bytes", with_commas(d.chat_template->size())));
  if (whole) text += template_text(*d.chat_template) + "\n";
  return text;
}

std::string shape_text(const Tensor& tensor) {
  return fmt::format("{}", fmt::join(tensor.dims.begin(),
                                     tensor.dims.begin() + std::max(tensor.n_dims, 1u), " x "));
}

json::object tensor_json(const Tensor& tensor) {
  json::array dims;
  for (uint32_t d = 0; d < tensor.n_dims; ++d) dims.push_back(tensor.dims[d]);
  return {{"name", tensor.name},
          {"type", quant::find_format(tensor.type)->name},
          {"dims", std::move(dims)},
          {"bytes", tensor.data.size()}};
}

template <class T>
json::value or_null(const std::optional<T>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}

json::value text_or_null(std::string_view text) {
  return text.empty() ? json::value(nullptr) : json::value(json::string(to_utf8(text)));
}

json::array mix_json(const Description& d) {
  json::array mix;
  for (const TypeShare& share : d.mix) {
    mix.push_back(json::object{{"type", share.name},
                               {"tensors", share.tensors},
                               {"bytes", share.bytes},
                               {"parameters", share.parameters}});
  }
  return mix;
}

json::object tokenizer_json(const Description& d) {
  return {{"model", text_or_null(d.tokenizer_model)},
          {"pre", text_or_null(d.tokenizer_pre)},
          {"size", or_null(d.vocabulary_size)}};
}

}  // namespace

double Description::bits_per_weight() const {
  return parameters == 0
             ? 0
             : 8.0 * static_cast<double>(weight_bytes) / static_cast<double>(parameters);
}

Description describe(const File& file) {
  Description d(file);
  d.architecture = optional_text(file, "general.architecture");
  d.name = optional_text(file, "general.name");
  d.mix = quant_mix(file);
  for (const TypeShare& share : d.mix) {
    d.parameters += share.parameters;
    d.weight_bytes += share.bytes;
  }
  const auto own = [&](std::string_view key) {
    return optional_uint(file, fmt::format("{}.{}", d.architecture, key));
  };
  d.context_length = own("context_length");
  d.block_count = own("block_count");
  d.embedding_length = own("embedding_length");
  d.feed_forward_length = own("feed_forward_length");
  d.head_count = own("attention.head_count");
  d.head_count_kv = own("attention.head_count_kv");
  d.expert_count = own("expert_count");
  d.tokenizer_model = optional_text(file, "tokenizer.ggml.model");
  d.tokenizer_pre = optional_text(file, "tokenizer.ggml.pre");
  const auto tokens = file.get_array("tokenizer.ggml.tokens", ValueType::kString);
  if (tokens && *tokens != nullptr) d.vocabulary_size = (*tokens)->size();
  const auto chat = file.get_string("tokenizer.chat_template", "");
  if (chat && file.find("tokenizer.chat_template") != nullptr) d.chat_template = *chat;
  for (const KeyValue& item : file.metadata()) {
    if (item.key.starts_with("tokenizer.chat_template.")) d.named_templates.push_back(item.key);
  }
  return d;
}

Result<Description> describe(Env& env, const std::string& path) {
  auto file = File::open(env, path);
  if (!file) return propagate(std::move(file));
  return describe(*file);
}

std::string to_text(const Description& d, const ShowOptions& options) {
  const auto parts = d.file.part_paths();
  std::string text =
      line("model", printable(d.name.empty() ? std::string_view(d.file.path()) : d.name));
  text += line("architecture", d.architecture.empty() ? "not stated" : printable(d.architecture));
  text += line("parameters",
               fmt::format("{} ({})", format_count(d.parameters), with_commas(d.parameters)));
  text +=
      line("file", fmt::format("{}, {}, GGUF version {}", format_size(d.file.size_bytes()),
                               parts.size() == 1 ? "1 part" : fmt::format("{} parts", parts.size()),
                               d.file.version()));
  for (const std::string& part : parts) text += fmt::format("  {}\n", printable(part, 1024));
  text += weights_text(d);
  text +=
      line("context", d.context_length ? fmt::format("{} tokens", with_commas(*d.context_length))
                                       : "not stated");
  text += tokenizer_text(d);
  text += chat_text(d, options.chat_template);
  for (const auto key : d.named_templates) text += fmt::format("  also {}\n", printable(key));
  text += "\n";
  for (const KeyValue& item : d.file.metadata()) {
    if (!options.metadata && !is_hyperparameter(d, item.key)) continue;
    text += fmt::format("{:<44} {:<7} {}\n", printable(item.key, 256), type_name(item.value.type),
                        text_of(item.value));
  }
  if (!options.tensors) return text;
  text += "\n";
  for (const Tensor& tensor : d.file.tensors()) {
    text += fmt::format("{:<44} {:<7} {}\n", printable(tensor.name),
                        quant::find_format(tensor.type)->name, shape_text(tensor));
  }
  return text;
}

std::string to_json(const Description& d, const ShowOptions& options) {
  json::object hyperparameters;
  json::object metadata;
  for (const KeyValue& item : d.file.metadata()) {
    if (is_hyperparameter(d, item.key)) {
      hyperparameters[item.key.substr(d.architecture.size() + 1)] = json_of(item.value);
    }
    if (options.metadata) metadata[item.key] = json_of(item.value);
  }
  json::array parts;
  for (const std::string& part : d.file.part_paths()) parts.push_back(json::string(to_utf8(part)));
  json::array named;
  for (const auto key : d.named_templates) named.push_back(json::string(key));
  json::object out{
      {"path", to_utf8(d.file.path())},
      {"version", d.file.version()},
      {"bytes", d.file.size_bytes()},
      {"parts", std::move(parts)},
      {"architecture", text_or_null(d.architecture)},
      {"name", text_or_null(d.name)},
      {"parameters", d.parameters},
      {"weight_bytes", d.weight_bytes},
      {"bits_per_weight", d.bits_per_weight()},
      {"tensor_count", d.file.tensors().size()},
      {"quant_mix", mix_json(d)},
      {"context_length", or_null(d.context_length)},
      {"block_count", or_null(d.block_count)},
      {"embedding_length", or_null(d.embedding_length)},
      {"feed_forward_length", or_null(d.feed_forward_length)},
      {"head_count", or_null(d.head_count)},
      {"head_count_kv", or_null(d.head_count_kv)},
      {"expert_count", or_null(d.expert_count)},
      {"hyperparameters", std::move(hyperparameters)},
      {"tokenizer", tokenizer_json(d)},
      {"chat_template", d.chat_template ? json::value(json::string(to_utf8(*d.chat_template)))
                                        : json::value(nullptr)},
      {"named_templates", std::move(named)},
  };
  if (options.metadata) out["metadata"] = std::move(metadata);
  if (options.tensors) {
    json::array tensors;
    for (const Tensor& tensor : d.file.tensors()) tensors.push_back(tensor_json(tensor));
    out["tensors"] = std::move(tensors);
  }
  return json::serialize(out);
}

}  // namespace ondol::gguf
