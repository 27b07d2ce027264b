// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ondol::store {

/// Whether `name` may name a model of the store: letters, digits, `._+-` and anything beyond ASCII,
/// at most 128 bytes, not starting with a dot or a dash, no `..`, not ending in `.gguf`. So it can
/// never leave the store's folder or be taken for a flag.
bool is_model_name(std::string_view name);
/// Usage error with the rule, if it is not one.
Result<void> check_model_name(std::string_view name);

/// Whether a path that a server names is one below a folder: relative, `/` between parts, no empty,
/// `.` or `..` part, no backslash, no control character, at most 512 bytes.
bool is_safe_relative_path(std::string_view path);

/// The last part of a path.
std::string_view base_name(std::string_view path);

/// `NAME-00002-of-00005.gguf`: one part of a model in several files.
struct SplitName {
  std::string stem;     ///< NAME, with what stands before it in the path
  uint32_t number = 0;  ///< from 1
  uint32_t count = 0;
};
/// Reads a name of that form; empty for any other, and for a number beyond the count.
std::optional<SplitName> parse_split_name(std::string_view path);
/// The inverse of parse_split_name.
std::string format_split_name(const SplitName& name);

/// The name under which a file is kept if none is chosen: its own without folder, part number and
/// `.gguf`, with a dash for every character that names of models do not have.
std::string default_model_name(std::string_view path);

/// `hf:org/repo[:selector]`; the selector is a file of the repository or a quantisation such as
/// Q4_K_M.
struct HubSpec {
  std::string repo;      ///< org/repo
  std::string selector;  ///< empty: the only model there
};
/// Whether the text begins like one.
bool is_hub_spec(std::string_view model);
/// Usage error if the text is not of that form.
Result<HubSpec> parse_hub_spec(std::string_view model);

}  // namespace ondol::store
