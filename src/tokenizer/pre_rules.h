// Thread rule: pure functions over constant data.
#pragma once

#include <span>
#include <string_view>

namespace ondol::tokenizer {

/// How a byte-level vocabulary (tokenizer.ggml.pre) cuts its text before pairs merge.
struct PreRule {
  std::string_view name;
  std::span<const std::string_view> patterns;  ///< applied one after another (Splitter)
  bool nfc = false;  ///< the text is brought to normalisation form C first
  bool whole_words_first =
      false;              ///< a piece that is a token becomes it without merging ("ignore_merges")
  bool adds_bos = false;  ///< unless tokenizer.ggml.add_bos_token says otherwise
};

/// The rule of this name; null if it is not known.
const PreRule* find_pre_rule(std::string_view name);

}  // namespace ondol::tokenizer
