#include "store/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace ondol::store {
namespace {

constexpr std::string_view kSuffix = ".gguf";
constexpr std::string_view kHub = "hf:";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_plain(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' ||
         c == '-';
}

bool is_name_character(char c) {
  return is_plain(c) || c == '+' || static_cast<unsigned char>(c) >= 0x80;
}

/// One half of `org/repo`.
bool is_repo_part(std::string_view part) {
  return !part.empty() && part.size() <= 96 && std::ranges::all_of(part, is_plain) &&
         part.front() != '.' && part.find("..") == std::string_view::npos;
}

std::optional<uint32_t> five_digits(std::string_view text) {
  uint32_t value = 0;
  if (text.size() != 5 || !std::ranges::all_of(text, is_digit)) return std::nullopt;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

bool is_model_name(std::string_view name) {
  return !name.empty() && name.size() <= 128 && name.front() != '.' && name.front() != '-' &&
         name.find("..") == std::string_view::npos && !name.ends_with(kSuffix) &&
         std::ranges::all_of(name, is_name_character);
}

Result<void> check_model_name(std::string_view name) {
  if (is_model_name(name)) return {};
  return usage_error(fmt::format(
      "'{}' cannot name a model in the store; use letters, digits and . _ + - (at most 128, not "
      "starting with . or -, no .., not ending in .gguf)",
      name));
}

bool is_safe_relative_path(std::string_view path) {
  if (path.empty() || path.size() > 512) return false;
  for (const char c : path) {
    if (c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

std::string_view base_name(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::optional<SplitName> parse_split_name(std::string_view path) {
  constexpr std::string_view kForm = "-00000-of-00000.gguf";
  if (path.size() <= kForm.size() || !path.ends_with(kSuffix)) return std::nullopt;
  const std::string_view tail = path.substr(path.size() - kForm.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-") return std::nullopt;
  const auto number = five_digits(tail.substr(1, 5));
  const auto count = five_digits(tail.substr(10, 5));
  if (!number || !count || *number < 1 || *number > *count) return std::nullopt;
  return SplitName{std::string(path.substr(0, path.size() - kForm.size())), *number, *count};
}

std::string format_split_name(const SplitName& name) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", name.stem, name.number, name.count);
}

std::string default_model_name(std::string_view path) {
  const auto split = parse_split_name(path);
  std::string name(base_name(split ? std::string_view(split->stem) : path));
  if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
  std::ranges::replace_if(name, [](char c) { return !is_name_character(c); }, '-');
  return name;
}

bool is_hub_spec(std::string_view model) { return model.starts_with(kHub); }

Result<HubSpec> parse_hub_spec(std::string_view model) {
  const auto bad = [&] {
    return usage_error(fmt::format(
        "'{}' does not name a model on the hub; write hf:org/repo, hf:org/repo:Q4_K_M or "
        "hf:org/repo:file.gguf",
        model));
  };
  if (!is_hub_spec(model)) return bad();
  std::string_view rest = model.substr(kHub.size());
  const size_t colon = rest.find(':');
  const std::string_view repo = rest.substr(0, colon);
  const size_t slash = repo.find('/');
  if (slash == std::string_view::npos) return bad();
  if (!is_repo_part(repo.substr(0, slash)) || !is_repo_part(repo.substr(slash + 1))) return bad();
  HubSpec spec{std::string(repo), {}};
  if (colon != std::string_view::npos) {
    spec.selector = rest.substr(colon + 1);
    if (!is_safe_relative_path(spec.selector)) return bad();
  }
  return spec;
}

}  // namespace ondol::store
