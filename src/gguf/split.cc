// Opening a file by its path, with the other parts of a split one.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "gguf/state.h"
#include "gguf/text.h"

namespace ondol::gguf {
namespace {

/// PREFIX-00002-of-00003.gguf taken apart; `number` counts from 1.
struct PartName {
  std::string prefix;
  uint32_t number = 0;
  uint32_t count = 0;
  std::string of(uint32_t n) const {
    return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, n, count);
  }
};

std::optional<uint32_t> five_digits(std::string_view text) {
  uint32_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || text.size() != 5)
    return std::nullopt;
  return value;
}

std::optional<PartName> take_apart(std::string_view path) {
  constexpr std::string_view kTail = "-00001-of-00003.gguf";
  if (path.size() < kTail.size() || !path.ends_with(".gguf")) return std::nullopt;
  const std::string_view tail = path.substr(path.size() - kTail.size());
  const auto number = five_digits(tail.substr(1, 5));
  const auto count = five_digits(tail.substr(10, 5));
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || !number || !count) return std::nullopt;
  if (*number < 1 || *number > *count) return std::nullopt;
  return PartName{std::string(path.substr(0, path.size() - kTail.size())), *number, *count};
}

struct SplitKeys {
  uint64_t number = 0;  // from 0
  uint64_t count = 0;   // 0: not split
  std::optional<uint64_t> tensors;
};

Result<SplitKeys> split_keys(const File& file) {
  SplitKeys keys;
  const auto count = file.get_uint("split.count", 0);
  if (!count) return propagate(count);
  const auto number = file.get_uint("split.no", 0);
  if (!number) return propagate(number);
  const auto tensors = file.get_uint("split.tensors.count", 0);
  if (!tensors) return propagate(tensors);
  keys.count = *count;
  keys.number = *number;
  if (file.find("split.tensors.count") != nullptr) keys.tensors = *tensors;
  return keys;
}

struct OpenPart {
  std::unique_ptr<MappedFile> map;
  File file;
};

Result<OpenPart> open_part(Env& env, const std::string& path) {
  auto map = env.map(path);
  if (!map) return propagate(std::move(map));
  auto file = File::parse((*map)->bytes(), path);
  if (!file) return propagate(std::move(file));
  return OpenPart{std::move(*map), std::move(*file)};
}

std::unexpected<Error> refused_part(const std::string& path, std::string_view what) {
  return refused(fmt::format("'{}' was refused: {}", printable(path, 1024), what));
}

/// The names of all parts, if the name of the one opened and its keys agree and every part is
/// there.
Result<std::vector<std::string>> part_names(Env& env, const std::string& path,
                                            const SplitKeys& keys) {
  const auto name = take_apart(path);
  if (!name || name->count != keys.count || name->number != keys.number + 1) {
    return refused_part(path,
                        fmt::format("its keys split.no and split.count say that it is part {} of "
                                    "{}, so its name has to end in "
                                    "-{:05}-of-{:05}.gguf with the other parts beside it; give the "
                                    "parts their names back (parts "
                                    "are opened side by side, never joined byte by byte)",
                                    keys.number + 1, keys.count, keys.number + 1, keys.count));
  }
  std::vector<std::string> names;
  for (uint32_t n = 1; n <= name->count; ++n) {
    const std::string part = name->of(n);
    if (n != name->number && !env.info(part)) {
      return refused_part(path, fmt::format("part {} of {} is missing; put '{}' beside it", n,
                                            name->count, printable(part, 1024)));
    }
    names.push_back(part);
  }
  return names;
}

/// Whether part `index` says of itself what part `opened` and the name make one expect.
Result<void> check_part(const File& part, uint64_t index, const SplitKeys& opened,
                        const File& first) {
  const auto keys = split_keys(part);
  if (!keys) return propagate(keys);
  if (keys->count != opened.count || keys->number != index) {
    return refused_part(
        part.path(),
        fmt::format(
            "key split.no or split.count: the name says part {} of {}, the keys say part {} "
            "of {}; fetch it again",
            index + 1, opened.count, keys->number + 1, keys->count));
  }
  if (keys->tensors != opened.tensors) {
    return refused_part(
        part.path(),
        "key split.tensors.count: the parts disagree about the number of tensors; they belong to "
        "different models or conversions");
  }
  const auto architecture = part.get_string("general.architecture", "");
  const auto first_architecture = first.get_string("general.architecture", "");
  if (architecture && first_architecture && !architecture->empty() &&
      *architecture != *first_architecture) {
    return refused_part(part.path(), "key general.architecture: it is not that of part 1");
  }
  return {};
}

/// Two parts that hold a tensor of the same name.
Result<void> no_shared_tensor(const std::vector<OpenPart>& parts) {
  std::vector<std::pair<std::string_view, size_t>> names;
  for (size_t i = 0; i < parts.size(); ++i) {
    for (const Tensor& tensor : parts[i].file.tensors()) names.emplace_back(tensor.name, i);
  }
  std::ranges::sort(names);
  const auto twin =
      std::ranges::adjacent_find(names, {}, [](const auto& each) { return each.first; });
  if (twin == names.end()) return {};
  return refused_part(
      parts[std::next(twin)->second].file.path(),
      fmt::format("the tensor '{}' is also in '{}'; one of the parts is a wrong file",
                  printable(twin->first), printable(parts[twin->second].file.path(), 1024)));
}

Result<void> check_all(const std::vector<OpenPart>& parts, const SplitKeys& opened) {
  uint64_t n_tensors = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (auto ok = check_part(parts[i].file, i, opened, parts[0].file); !ok) return ok;
    n_tensors += parts[i].file.tensors().size();
  }
  if (opened.tensors && *opened.tensors != n_tensors) {
    return refused_part(
        parts[0].file.path(),
        fmt::format(
            "key split.tensors.count: it announces {} tensors and the parts hold {}; a part is "
            "a wrong file",
            *opened.tensors, n_tensors));
  }
  return no_shared_tensor(parts);
}

}  // namespace

Result<File> File::open(Env& env, const std::string& path) {
  auto opened = open_part(env, path);
  if (!opened) return propagate(std::move(opened));
  const auto keys = split_keys(opened->file);
  if (!keys) return propagate(keys);

  std::vector<std::string> names = {path};
  std::vector<OpenPart> parts;
  if (keys->count > 1) {
    auto found = part_names(env, path, *keys);
    if (!found) return propagate(std::move(found));
    names = std::move(*found);
  }
  const uint64_t own =
      keys->count > 1 ? keys->number : 0;  // below names.size(): part_names() checked it
  for (uint64_t i = 0; i < names.size(); ++i) {
    if (i == own) {
      parts.push_back({std::move(opened->map), opened->file});
      continue;
    }
    auto part = open_part(env, names[i]);
    if (!part) return propagate(std::move(part));
    parts.push_back(std::move(*part));
  }
  if (keys->count > 0) {
    if (auto ok = check_all(parts, *keys); !ok) return propagate(std::move(ok));
  }

  auto state = Parser::new_state();
  state->path = path;
  state->part_paths = std::move(names);
  state->version = parts[0].file.version();
  const auto metadata = parts[0].file.metadata();
  state->metadata.assign(metadata.begin(), metadata.end());
  for (OpenPart& part : parts) {
    const auto tensors = part.file.tensors();
    state->tensors.insert(state->tensors.end(), tensors.begin(), tensors.end());
    state->size += part.file.size_bytes();
    state->maps.push_back(std::move(part.map));
  }
  return Parser::finish(std::move(state));
}

}  // namespace ondol::gguf
