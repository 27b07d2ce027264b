#include "model/config.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace ondol::model {
namespace {

constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxContext = 1 << 30;

/// Scalings of the rotary embedding: none, linear, YaRN. Those of Llama 3.1 come as a tensor of
/// factors.
void read_rope(KeyReader& keys, Config& config) {
  kernels::RopeParams& rope = config.rope;
  rope.n_rot = static_cast<int>(
      keys.integer("rope.dimension_count", 0, config.head_dim_k, config.head_dim_k));
  if (rope.n_rot % 2 != 0)
    keys.reject("rope.dimension_count", "rotary dimensions come in pairs, so it must be even");
  rope.freq_base = keys.positive("rope.freq_base", 10000.0f);
  rope.original_ctx = static_cast<int>(keys.integer("rope.scaling.original_context_length", 1,
                                                    kMaxContext, std::max(1, config.n_ctx_train)));
  const std::string_view kind = keys.text("rope.scaling.type", "none");
  if (kind != "none" && kind != "linear" && kind != "yarn") {
    keys.reject("rope.scaling.type", "none, linear and yarn are supported");
  }
  const float factor =
      keys.positive("rope.scaling.factor", keys.positive("rope.scale_linear", 1.0f));
  rope.attn_factor = keys.positive("rope.scaling.attn_factor", 1.0f);
  if (kind == "linear" || kind == "yarn") rope.freq_scale = 1.0f / factor;
  if (kind == "yarn") {
    rope.yarn_ext_factor = keys.positive("rope.scaling.yarn_ext_factor", 1.0f);
    rope.yarn_beta_fast = keys.positive("rope.scaling.yarn_beta_fast", 32.0f);
    rope.yarn_beta_slow = keys.positive("rope.scaling.yarn_beta_slow", 1.0f);
    // Attention temperature, YaRN section 3.4.
    rope.attn_factor *= 1.0f + 0.1f * std::log(factor);
  }
}

void read_heads(KeyReader& keys, Config& config) {
  config.n_head = static_cast<int>(keys.integer("attention.head_count", 1, 4096));
  config.n_head_kv =
      static_cast<int>(keys.integer("attention.head_count_kv", 1, config.n_head, config.n_head));
  if (!keys.status()) return;
  if (config.n_head % config.n_head_kv != 0) {
    keys.reject("attention.head_count_kv",
                fmt::format("{} query heads are no multiple of it", config.n_head));
  }
  if (!keys.has("attention.key_length") && config.n_embd % config.n_head != 0) {
    keys.reject("attention.head_count",
                fmt::format("the embedding length {} is no multiple of it", config.n_embd));
  }
  const int head_dim = config.n_embd / config.n_head;
  config.head_dim_k =
      static_cast<int>(keys.integer("attention.key_length", 1, 65536, std::max(1, head_dim)));
  config.head_dim_v =
      static_cast<int>(keys.integer("attention.value_length", 1, 65536, std::max(1, head_dim)));
}

}  // namespace

template <class T>
T KeyReader::take(Result<T> result) {
  if (result) return *result;
  if (status_) status_ = propagate(std::move(result));
  return T{};
}

void KeyReader::reject(std::string_view key, std::string_view why) {
  if (status_)
    status_ =
        refused(fmt::format("the model file's key '{}{}' cannot be used: {}", prefix_, key, why));
}

int64_t KeyReader::integer(std::string_view key, int64_t low, int64_t high) {
  const std::string name = full(key);
  const gguf::Value* value = file_.find(name);
  // Some models give one number per layer; all equal is the same as a single one.
  if (value != nullptr && value->type == gguf::ValueType::kArray) {
    const auto& array = std::get<gguf::Array>(value->data);
    bool usable = array.size() > 0 && gguf::is_integer(array.type());
    for (uint64_t i = 1; usable && i < array.size(); ++i)
      usable = array.at_int(i) == array.at_int(0);
    if (!usable) {
      reject(key, "a list of different values per layer is not supported");
      return low;
    }
    const int64_t number = array.at_int(0);
    if (number < low || number > high)
      reject(key, fmt::format("it is {}, allowed are {} to {}", number, low, high));
    return number;
  }
  const uint64_t number = take(file_.get_uint(name));
  if (status_ && (number < static_cast<uint64_t>(low) || number > static_cast<uint64_t>(high))) {
    reject(key, fmt::format("it is {}, allowed are {} to {}", number, low, high));
  }
  return status_ ? static_cast<int64_t>(number) : low;
}

int64_t KeyReader::integer(std::string_view key, int64_t low, int64_t high, int64_t fallback) {
  return has(key) ? integer(key, low, high) : fallback;
}

float KeyReader::positive(std::string_view key) {
  const double number = take(file_.get_float(full(key)));
  if (status_ &&
      !(number > 0 && number <= static_cast<double>(std::numeric_limits<float>::max()))) {
    reject(key, fmt::format("it is {}, it must be a finite number above zero", number));
  }
  return static_cast<float>(number);
}

float KeyReader::positive(std::string_view key, float fallback) {
  return has(key) ? positive(key) : fallback;
}

std::string_view KeyReader::text(std::string_view key, std::string_view fallback) {
  return take(file_.get_string(full(key), fallback));
}

Result<std::string_view> architecture(const gguf::File& file) {
  return file.get_string("general.architecture");
}

Result<Config> Config::read(const gguf::File& file, kernels::RopeStyle style) {
  const auto arch = architecture(file);
  if (!arch) return propagate(arch);
  Config config;
  config.arch = *arch;
  config.rope.style = style;
  KeyReader keys(file, *arch);
  // A layer has tensors, so there cannot be more layers than tensors: nothing is ever sized by a
  // number that the file cannot justify.
  config.n_layer =
      static_cast<int>(keys.integer("block_count", 1, static_cast<int64_t>(file.tensors().size())));
  config.n_embd = static_cast<int>(keys.integer("embedding_length", 1, kMaxWidth));
  config.n_ff = static_cast<int>(keys.integer("feed_forward_length", 1, kMaxWidth));
  config.n_ctx_train = static_cast<int>(keys.integer("context_length", 1, kMaxContext));
  config.rms_eps = keys.positive("attention.layer_norm_rms_epsilon");
  if (keys.status()) read_heads(keys, config);
  if (keys.status()) read_rope(keys, config);
  if (!keys.status()) return propagate(keys.status());

  const gguf::Tensor* embedding = file.tensor("token_embd.weight");
  if (embedding == nullptr) return refused("the model file has no tensor 'token_embd.weight'");
  if (embedding->dims[1] > (1u << 26))
    return refused("the vocabulary of 'token_embd.weight' is too large");
  config.n_vocab = static_cast<int>(embedding->dims[1]);
  const auto tokens = file.get_array("tokenizer.ggml.tokens", gguf::ValueType::kString);
  if (!tokens) return propagate(tokens);
  if (*tokens != nullptr && (*tokens)->size() != embedding->dims[1]) {
    return refused(
        fmt::format("'tokenizer.ggml.tokens' has {} entries, but 'token_embd.weight' has {} rows",
                    (*tokens)->size(), embedding->dims[1]));
  }
  return config;
}

}  // namespace ondol::model
