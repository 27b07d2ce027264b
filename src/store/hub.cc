#include "store/hub.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cctype>
#include <map>
#include <optional>

#include "base/units.h"
#include "store/names.h"

namespace ondol::store {
namespace {

namespace json = boost::json;

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

const std::string* string_or_null(const json::object& object, std::string_view key,
                                  std::string& buffer) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_string()) return nullptr;
  buffer.assign(value->get_string().data(), value->get_string().size());
  return &buffer;
}

std::optional<uint64_t> size_of(const json::object& object) {
  const json::value* value = object.if_contains("size");
  if (value == nullptr) return std::nullopt;
  boost::system::error_code code;
  const auto size = value->to_number<uint64_t>(code);
  if (code.failed()) return std::nullopt;
  return size;
}

bool is_sha256(std::string_view text) {
  const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == 64 && std::ranges::all_of(text, hex);
}

/// Whether `quant` stands in the path as a word of its own: Q4_K is not in ...-Q4_K_M.gguf.
bool has_quant(std::string_view path, std::string_view quant) {
  const std::string text = lower(path.substr(0, path.size() - std::min<size_t>(path.size(), 5)));
  const std::string word = lower(quant);
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool starts =
        at == 0 || std::string_view("-._/").find(text[at - 1]) != std::string_view::npos;
    const bool ends =
        end == text.size() || std::string_view("-./").find(text[end]) != std::string_view::npos;
    if (starts && ends) return true;
  }
  return false;
}

bool is_side_file(std::string_view path) {
  const std::string name = lower(base_name(path));
  return name.find("mmproj") != std::string::npos || name.find("imatrix") != std::string::npos;
}

/// A model with all its parts.
struct Model {
  std::string title;  ///< path of the first part
  std::vector<HubFile> files;
  uint32_t count = 1;
};

std::vector<Model> group(const std::vector<HubFile>& files) {
  std::map<std::string, Model> models;  // ordered by path
  for (const HubFile& file : files) {
    const auto split = parse_split_name(file.path);
    SplitName first = split.value_or(SplitName{});
    first.number = 1;
    Model& model = models[split ? format_split_name(first) : file.path];
    model.files.push_back(file);
    if (split) model.count = split->count;
  }
  std::vector<Model> out;
  for (auto& [title, model] : models) {
    std::ranges::sort(model.files, {}, &HubFile::path);
    model.title = title;
    out.push_back(std::move(model));
  }
  return out;
}

std::string listing(const std::vector<Model>& models) {
  constexpr size_t kMost = 40;
  std::vector<std::string> lines;
  for (const Model& model : models) {
    if (lines.size() == kMost) {
      lines.push_back(fmt::format("and {} more", models.size() - kMost));
      break;
    }
    uint64_t size = 0;
    for (const HubFile& file : model.files)
      size = size > UINT64_MAX - file.size ? UINT64_MAX : size + file.size;
    lines.push_back(fmt::format("{} ({})", model.title, format_size(size)));
  }
  return fmt::format("{}", fmt::join(lines, ", "));
}

}  // namespace

Result<std::vector<HubFile>> parse_listing(std::string_view text) {
  json::parse_options options;
  options.max_depth = 16;
  boost::system::error_code code;
  const json::value root = json::parse(text, code, {}, options);
  if (code.failed() || !root.is_array()) {
    return failed(
        "the hub did not answer with a list of files in JSON; check HF_ENDPOINT, or try again "
        "later");
  }
  std::vector<HubFile> files;
  for (const json::value& value : root.get_array()) {
    const json::object* entry = value.if_object();
    std::string type, path, oid;
    if (entry == nullptr || string_or_null(*entry, "type", type) == nullptr ||
        string_or_null(*entry, "path", path) == nullptr) {
      return failed(
          "the hub's list of files has an entry without type and path; check HF_ENDPOINT");
    }
    if (type != "file" || !path.ends_with(".gguf")) continue;
    if (!is_safe_relative_path(path)) {
      return refused(fmt::format(
          "the hub's list of files names '{}', which is not a path inside a repository", path));
    }
    const json::value* lfs = entry->if_contains("lfs");
    const json::object* pointer = lfs == nullptr ? nullptr : lfs->if_object();
    const auto size = size_of(pointer != nullptr && pointer->contains("size") ? *pointer : *entry);
    if (!size) return failed(fmt::format("the hub's list of files states no size for '{}'", path));
    if (pointer == nullptr || string_or_null(*pointer, "oid", oid) == nullptr || !is_sha256(oid))
      oid.clear();
    files.push_back({path, *size, oid});
  }
  return files;
}

Result<std::vector<HubFile>> select_model(const std::vector<HubFile>& files,
                                          const std::string& repo, std::string_view selector) {
  const std::vector<Model> all = group(files);
  if (all.empty()) return usage_error(fmt::format("'{}' has no GGUF file", repo));
  std::vector<Model> fitting;
  for (const Model& model : all) {
    const bool named = std::ranges::any_of(model.files, [&](const HubFile& file) {
      return file.path == selector || base_name(file.path) == selector;
    });
    if (named ||
        (!is_side_file(model.title) && (selector.empty() || has_quant(model.title, selector)))) {
      fitting.push_back(model);
    }
  }
  if (fitting.empty()) {
    return usage_error(
        fmt::format("'{}' has no model '{}'; there is: {}", repo, selector, listing(all)));
  }
  if (fitting.size() > 1) {
    return usage_error(
        fmt::format("'{}' has several models that fit; add a file or a quantisation, as in "
                    "hf:{}:{}. There is: {}",
                    repo, repo, base_name(fitting[0].title), listing(fitting)));
  }
  Model& model = fitting[0];
  for (uint32_t i = 0; i < model.files.size() && model.count > 1; ++i) {
    const auto split = parse_split_name(model.files[i].path);
    if (!split || split->number != i + 1 || split->count != model.count) {
      return refused(fmt::format("'{}' in '{}' should have {} parts, but they are not all there",
                                 model.title, repo, model.count));
    }
  }
  if (model.files.size() != model.count) {
    return refused(fmt::format("'{}' in '{}' should have {} parts, but {} are there", model.title,
                               repo, model.count, model.files.size()));
  }
  return std::move(model.files);
}

std::string next_page(std::string_view header) {
  while (!header.empty()) {
    const size_t open = header.find('<');
    const size_t close = header.find('>', open);
    if (open == std::string_view::npos || close == std::string_view::npos) return {};
    const size_t end = std::min(header.find(',', close), header.size());
    const std::string_view parameters = header.substr(close, end - close);
    if (parameters.find("rel=\"next\"") != std::string_view::npos) {
      return std::string(header.substr(open + 1, close - open - 1));
    }
    header.remove_prefix(end);
  }
  return {};
}

}  // namespace ondol::store
