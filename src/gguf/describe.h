// Thread rule: a Description is a value; the File inside may be read from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gguf/gguf.h"

namespace ondol::gguf {

/// The tensors of one type.
struct TypeShare {
  quant::Type type{};
  std::string_view name;  ///< "Q4_K"
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  uint64_t parameters = 0;
};

/// What a model file says of itself. Texts are views into the file, byte for byte; only the
/// renderings below are made valid UTF-8. A key that is absent or of another kind than usual leaves
/// its field empty (`metadata` still shows it).
struct Description {
  explicit Description(File source) : file(std::move(source)) {}

  File file;  ///< kept open: the views point into it

  std::string_view architecture;
  std::string_view name;
  uint64_t parameters = 0;     ///< values in all tensors
  uint64_t weight_bytes = 0;   ///< of all tensors
  std::vector<TypeShare> mix;  ///< largest share of bytes first

  // `ARCH.*` keys that nearly every model has; `file` has all of them.
  std::optional<uint64_t> context_length;
  std::optional<uint64_t> block_count;
  std::optional<uint64_t> embedding_length;
  std::optional<uint64_t> feed_forward_length;
  std::optional<uint64_t> head_count;
  std::optional<uint64_t> head_count_kv;
  std::optional<uint64_t> expert_count;

  std::string_view tokenizer_model;         ///< tokenizer.ggml.model
  std::string_view tokenizer_pre;           ///< tokenizer.ggml.pre
  std::optional<uint64_t> vocabulary_size;  ///< entries of tokenizer.ggml.tokens
  std::optional<std::string_view> chat_template;
  std::vector<std::string_view>
      named_templates;  ///< keys of further templates (tokenizer.chat_template.NAME)

  /// Bits that a weight takes on average; 0 without tensors.
  double bits_per_weight() const;
};

/// Reads the description of an open file. Never fails: every field but the file may be empty.
Description describe(const File& file);
/// Opens the file and describes it; kRefused as File::open.
Result<Description> describe(Env& env, const std::string& path);

struct ShowOptions {
  bool metadata = false;  ///< list every key and value (long arrays by their beginning)
  bool tensors = false;   ///< list every tensor
  bool chat_template =
      false;  ///< print the template itself in the text for people (JSON always has it)
};

/// Several lines for people. Control characters and bytes that are not UTF-8 come out as \xNN,
/// except that the chat template keeps its line ends and tabs.
std::string to_text(const Description& description, const ShowOptions& options = {});
/// One JSON object on one line, valid UTF-8 whatever the file holds. NaN and infinities become the
/// strings "nan", "inf" and "-inf".
std::string to_json(const Description& description, const ShowOptions& options = {});

}  // namespace ondol::gguf
