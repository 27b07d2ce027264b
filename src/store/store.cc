#include "store/store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstring>
#include <filesystem>

#include "base/units.h"
#include "store/names.h"

namespace ondol::store {
namespace {

namespace json = boost::json;

constexpr std::string_view kSuffix = ".gguf";
constexpr uint64_t kMostOriginBytes = 1 << 20;

std::string absolute(const std::string& path) {
  std::error_code code;
  auto full = std::filesystem::weakly_canonical(path, code);
  return code ? path : full.string();
}

Result<void> write_text(Env& env, const std::string& path, std::string_view text) {
  const std::string temporary = path + ".part";
  auto file = env.open_writable(temporary, WriteMode::kTruncate);
  if (!file) return propagate(std::move(file));
  if (auto done = (*file)->append(std::as_bytes(std::span(text))); !done) return done;
  if (auto done = (*file)->sync(); !done) return done;
  if (auto done = (*file)->close(); !done) return done;
  return env.rename(temporary, path);
}

std::optional<Origin> parse_origin(std::string_view text) {
  boost::system::error_code code;
  const json::value root = json::parse(text, code);
  if (code.failed() || !root.is_object()) return std::nullopt;
  const json::value* repo = root.get_object().if_contains("repo");
  const json::value* files = root.get_object().if_contains("files");
  if (repo == nullptr || !repo->is_string() || files == nullptr || !files->is_array())
    return std::nullopt;
  Origin origin{std::string(repo->get_string()), {}};
  for (const json::value& value : files->get_array()) {
    const json::object* file = value.if_object();
    const json::value* path = file == nullptr ? nullptr : file->if_contains("path");
    const json::value* size = file == nullptr ? nullptr : file->if_contains("size");
    const json::value* sha256 = file == nullptr ? nullptr : file->if_contains("sha256");
    if (path == nullptr || !path->is_string() || size == nullptr || sha256 == nullptr ||
        !sha256->is_string()) {
      return std::nullopt;
    }
    const auto bytes = size->to_number<uint64_t>(code);
    if (code.failed()) return std::nullopt;
    origin.files.push_back(
        {std::string(path->get_string()), bytes, std::string(sha256->get_string())});
  }
  return origin;
}

/// All files that belong to the model whose first (or only) file this is.
Result<std::vector<std::string>> parts_of(const std::string& file) {
  auto split = parse_split_name(file);
  if (!split) return std::vector{file};
  if (split->number != 1) {
    return usage_error(fmt::format("'{}' is part {} of {}; name the first part", file,
                                   split->number, split->count));
  }
  std::vector<std::string> parts;
  for (split->number = 1; split->number <= split->count; ++split->number)
    parts.push_back(format_split_name(*split));
  return parts;
}

Result<void> check_gguf(Env& env, const std::string& file) {
  const auto mapped = env.map(file);
  if (!mapped) return propagate(mapped);
  const auto bytes = (*mapped)->bytes();
  if (bytes.size() < 4 || std::memcmp(bytes.data(), "GGUF", 4) != 0) {
    return refused(fmt::format("'{}' is not a GGUF file: it does not start with GGUF", file));
  }
  return {};
}

}  // namespace

Result<std::string> Store::default_root(const std::function<const char*(const char*)>& getenv) {
  const auto value = [&](const char* name) {
    const char* text = getenv(name);
    return std::string(text == nullptr ? "" : text);
  };
  if (const auto home = value("ONDOL_HOME"); !home.empty()) return home;
  // The XDG specification has relative paths ignored.
  if (const auto data = value("XDG_DATA_HOME"); data.starts_with('/')) return data + "/ondol";
  if (const auto home = value("HOME"); !home.empty()) return home + "/.local/share/ondol";
  return usage_error("there is no place for models: set ONDOL_HOME to a folder");
}

std::string Store::partial(std::string_view name) const {
  return fmt::format("{}/.partial/{}", models(), name);
}

std::string Store::origin_path(std::string_view name) const {
  return fmt::format("{}/.origin/{}.json", models(), name);
}

bool Store::exists(const std::string& path) const {
  // A link whose target is gone has no info, but it is there.
  return env_.info(path).has_value() || env_.read_link(path).has_value();
}

std::optional<Origin> Store::read_origin(std::string_view name) const {
  const auto text = env_.read_text(origin_path(name), kMostOriginBytes);
  return text ? parse_origin(*text) : std::nullopt;
}

Result<void> Store::write_origin(std::string_view name, const Origin& origin) const {
  json::array files;
  for (const HubFile& file : origin.files) {
    files.push_back({{"path", file.path}, {"size", file.size}, {"sha256", file.sha256}});
  }
  if (auto made = env_.create_directories(models() + "/.origin"); !made) return made;
  return write_text(env_, origin_path(name),
                    json::serialize(json::object{{"repo", origin.repo}, {"files", files}}));
}

/// The entry that a name in the models folder stands for, if any.
Result<std::optional<Entry>> Store::read_entry(const std::string& file) const {
  const std::string path = models() + "/" + file;
  const auto info = env_.info(path);
  Entry entry;
  if (info && info->is_directory) {
    entry.name = file;
    const auto names = env_.list(path);
    if (!names) return propagate(names);
    for (const std::string& part : *names) {
      if (!part.ends_with(kSuffix)) continue;
      const std::string part_path = path + "/" + part;
      const auto part_info = env_.info(part_path);
      if (entry.path.empty()) entry.path = part_path;
      entry.size += part_info ? part_info->size : 0;
      entry.is_link |= env_.read_link(part_path).has_value();
      entry.is_missing |= !part_info;
    }
    if (entry.path.empty()) return std::optional<Entry>();
  } else if (file.ends_with(kSuffix)) {
    entry.name = file.substr(0, file.size() - kSuffix.size());
    entry.path = path;
    entry.size = info ? info->size : 0;
    entry.is_link = env_.read_link(path).has_value();
    entry.is_missing = !info;
    if (!exists(path)) return std::optional<Entry>();
  } else {
    return std::optional<Entry>();
  }
  if (!is_model_name(entry.name)) return std::optional<Entry>();
  entry.origin = read_origin(entry.name);
  return std::optional(std::move(entry));
}

Result<std::vector<Entry>> Store::list() const {
  std::vector<Entry> entries;
  const auto root = env_.info(root_);
  if (root && !root->is_directory) {
    return usage_error(fmt::format(
        "'{}' is to hold the models, but it is a file; set ONDOL_HOME to a folder", root_));
  }
  if (!env_.info(models())) return entries;  // nothing was ever kept here
  const auto files = env_.list(models());
  if (!files) return propagate(files);
  for (const std::string& file : *files) {
    auto read = read_entry(file);
    if (!read) return propagate(std::move(read));
    if (std::optional<Entry>& entry = *read; entry) entries.push_back(std::move(*entry));
  }
  std::ranges::sort(entries, {}, &Entry::name);
  return entries;
}

Result<std::optional<Entry>> Store::find(std::string_view name) const {
  if (!is_model_name(name)) return std::optional<Entry>();
  const std::string file = std::string(name).append(kSuffix);
  if (exists(models() + "/" + file)) return read_entry(file);
  const auto folder = env_.info(fmt::format("{}/{}", models(), name));
  if (folder && folder->is_directory) return read_entry(std::string(name));
  return std::optional<Entry>();
}

std::string Store::near_misses(std::string_view model, const std::vector<Entry>& entries) const {
  if (entries.empty()) return "the store is empty: fetch a model with `ondol pull hf:org/repo`";
  std::vector<std::string_view> names;
  for (const Entry& entry : entries) names.push_back(entry.name);
  std::string_view word = model;
  if (word.ends_with(kSuffix)) word.remove_suffix(kSuffix.size());
  const std::string_view near = nearest_name(base_name(word), names);
  if (!near.empty()) return fmt::format("did you mean '{}'?", near);
  const size_t shown = std::min<size_t>(names.size(), 8);
  return fmt::format("the store has: {}{}",
                     fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "),
                     shown < names.size() ? ", ..." : "");
}

Result<std::string> Store::resolve_pulled(std::string_view model) const {
  const auto spec = parse_hub_spec(model);
  if (!spec) return propagate(spec);
  const auto entries = list();
  if (!entries) return propagate(entries);
  std::vector<HubFile> files;
  for (const Entry& entry : *entries) {
    if (!entry.origin || entry.origin->repo != spec->repo || entry.is_missing) continue;
    files.insert(files.end(), entry.origin->files.begin(), entry.origin->files.end());
  }
  if (files.empty()) {
    return usage_error(
        fmt::format("'{0}' is not in the store; fetch it with `ondol pull {0}`", model));
  }
  const auto chosen = select_model(files, spec->repo, spec->selector);
  if (!chosen) {
    return usage_error(fmt::format("among what was pulled: {}; fetch more with `ondol pull {}`",
                                   chosen.error().message, model));
  }
  for (const Entry& entry : *entries) {
    if (entry.origin && entry.origin->repo == spec->repo &&
        entry.origin->files[0].path == chosen->front().path) {
      return entry.path;
    }
  }
  return usage_error(
      fmt::format("'{0}' is not in the store; fetch it with `ondol pull {0}`", model));
}

Result<std::string> Store::resolve(std::string_view model) const {
  if (is_hub_spec(model)) return resolve_pulled(model);
  if (model.empty())
    return usage_error("no model is named; give a path, a name of the store or hf:org/repo");
  const std::string path(model);
  const auto info = env_.info(path);
  if (info && !info->is_directory) return path;
  const auto found = find(model);
  if (!found) return propagate(found);
  if (const std::optional<Entry>& entry = *found; entry) {
    if (!entry->is_missing) return entry->path;
    return failed(fmt::format(
        "'{0}' is linked to a file that is gone; put it back, or `ondol rm {0}`", model));
  }
  if (info) return refused(fmt::format("'{}' is a folder; name the .gguf file in it", path));
  if (info.error().kind == ErrorKind::kRefused) return propagate(info);
  if (const auto target = env_.read_link(path)) {
    return refused(fmt::format("'{}' is a link to '{}', which is not there; name the file itself",
                               path, *target));
  }
  const auto entries = list();
  if (!entries) return propagate(entries);
  return refused(fmt::format("there is no file and no model in the store named '{}'; {}", model,
                             near_misses(model, *entries)));
}

Result<std::unique_ptr<FileLock>> Store::lock(std::string_view name) const {
  if (auto valid = check_model_name(name); !valid) return propagate(std::move(valid));
  if (auto made = env_.create_directories(models() + "/.partial"); !made)
    return propagate(std::move(made));
  auto lock = env_.try_lock(partial(name) + ":lock");
  if (lock && !*lock) {
    return failed(fmt::format(
        "another process is just pulling, importing or removing '{}'; wait for it", name));
  }
  return lock;
}

Result<std::string> Store::partial_folder(std::string_view name) const {
  if (auto made = env_.create_directories(partial(name)); !made) return propagate(std::move(made));
  return partial(name);
}

/// A link, a file, or a folder with files in it (never deeper, and never through a link). A path
/// that is not there is fine.
Result<uint64_t> Store::remove_tree(const std::string& path) const {
  const auto info = env_.info(path);
  if (!info && !exists(path)) return 0;
  const bool is_folder = info && info->is_directory && !info->is_symlink;
  uint64_t bytes = info && !info->is_directory && !info->is_symlink ? info->size : 0;
  if (is_folder) {
    const auto names = env_.list(path);
    if (!names) return propagate(names);
    for (const std::string& name : *names) {
      const auto inner = env_.info(path + "/" + name);
      if (inner && !inner->is_symlink) bytes += inner->size;
      if (auto gone = env_.remove(path + "/" + name); !gone) return propagate(std::move(gone));
    }
  }
  if (auto gone = env_.remove(path); !gone) return propagate(std::move(gone));
  return bytes;
}

Result<uint64_t> Store::remove_published(std::string_view name) const {
  const std::string path = fmt::format("{}/{}", models(), name);
  const auto file = remove_tree(path + std::string(kSuffix));
  if (!file) return file;
  const auto folder = remove_tree(path);
  if (!folder) return folder;
  if (const auto origin = remove_tree(origin_path(name)); !origin) return origin;
  return *file + *folder;
}

Result<uint64_t> Store::remove(std::string_view name) {
  if (auto valid = check_model_name(name); !valid) return propagate(std::move(valid));
  const auto unknown = [&]() -> Result<uint64_t> {
    const auto entries = list();
    if (!entries) return propagate(entries);
    return usage_error(
        fmt::format("the store has no model '{}'; {}", name, near_misses(name, *entries)));
  };
  if (!env_.info(models())) return unknown();  // a lock would make the store
  const auto held = lock(name);
  if (!held) return propagate(held);
  const auto entry = find(name);
  if (!entry) return propagate(entry);
  if (!*entry && !exists(partial(name))) return unknown();
  const auto published = remove_published(name);
  if (!published) return published;
  const auto unfinished = remove_tree(partial(name));
  if (!unfinished) return unfinished;
  return *published + *unfinished;
}

Result<Entry> Store::publish(std::string_view name,
                             const std::vector<std::pair<std::string, std::string>>& files,
                             const std::optional<Origin>& origin) {
  const std::string folder = fmt::format("{}/{}", models(), name);
  const bool is_split = files.size() > 1 || parse_split_name(files.at(0).second).has_value();
  if (is_split) {
    // Put together out of sight, so that the folder is complete from its first moment.
    const std::string assembled = partial(name) + ":parts";
    if (auto gone = remove_tree(assembled); !gone) return propagate(std::move(gone));
    if (auto made = env_.create_directories(assembled); !made) return propagate(std::move(made));
    for (const auto& [from, to] : files) {
      if (auto moved = env_.rename(from, assembled + "/" + to); !moved)
        return propagate(std::move(moved));
    }
    if (auto gone = remove_published(name); !gone) return propagate(std::move(gone));
    if (auto moved = env_.rename(assembled, folder); !moved) return propagate(std::move(moved));
  } else {
    if (auto gone = remove_tree(origin_path(name)); !gone) return propagate(std::move(gone));
    const std::string path = folder + std::string(kSuffix);
    if (auto moved = env_.rename(files[0].first, path); !moved) return propagate(std::move(moved));
    if (auto gone = remove_tree(folder); !gone) return propagate(std::move(gone));
  }
  if (origin) {
    if (auto written = write_origin(name, *origin); !written) return propagate(std::move(written));
  }
  if (auto gone = remove_tree(partial(name)); !gone) return propagate(std::move(gone));
  auto entry = find(name);
  if (!entry) return propagate(std::move(entry));
  if (std::optional<Entry>& put = *entry; put) return std::move(*put);
  return failed(fmt::format("'{}' vanished from the store while it was put there", name));
}

Result<void> Store::copy(const std::string& from, const std::string& to) const {
  const auto mapped = env_.map(from);
  if (!mapped) return propagate(mapped);
  auto file = env_.open_writable(to, WriteMode::kTruncate);
  if (!file) return propagate(std::move(file));
  constexpr size_t kPiece = 4 << 20;
  for (auto rest = (*mapped)->bytes(); !rest.empty();
       rest = rest.subspan(std::min(kPiece, rest.size()))) {
    if (auto done = (*file)->append(rest.first(std::min(kPiece, rest.size()))); !done) return done;
  }
  if (auto done = (*file)->sync(); !done) return done;
  return (*file)->close();
}

Result<Entry> Store::import(const std::string& file, std::string_view name, ImportMode mode,
                            bool replace) {
  const auto parts = parts_of(file);
  if (!parts) return propagate(parts);
  uint64_t size = 0;
  for (const std::string& part : *parts) {
    if (auto valid = check_gguf(env_, part); !valid) return propagate(std::move(valid));
    size += env_.info(part).value_or(FileInfo{}).size;
  }
  const auto held = lock(name);
  if (!held) return propagate(held);
  auto present = find(name);
  if (!present) return propagate(std::move(present));
  if (std::optional<Entry>& known = *present; known && !replace) {
    if (mode == ImportMode::kLink && !known->is_missing &&
        absolute(known->path) == absolute(parts->front())) {
      return std::move(*known);
    }
    return usage_error(fmt::format(
        "the store has a model '{0}' already; choose another name, or `ondol rm {0}` first", name));
  }
  const auto folder = partial_folder(name);
  if (!folder) return propagate(folder);
  if (mode == ImportMode::kCopy) {
    const auto room = env_.free_space(*folder);
    if (!room) return propagate(room);
    if (*room < size) {
      return failed(fmt::format("'{}' needs {}, but only {} are free on the disk of '{}'", file,
                                format_size(size), format_size(*room), root_));
    }
  }
  std::vector<std::pair<std::string, std::string>> files;
  for (const std::string& part : *parts) {
    const std::string staged = fmt::format("{}/{}.import", *folder, files.size());
    if (auto gone = remove_tree(staged); !gone) return propagate(std::move(gone));
    const auto done =
        mode == ImportMode::kLink ? env_.symlink(absolute(part), staged) : copy(part, staged);
    if (!done) {
      (void)remove_tree(*folder);  // the first error is the one to tell
      return propagate(done);
    }
    files.emplace_back(staged, base_name(part));
  }
  return publish(name, files, std::nullopt);
}

}  // namespace ondol::store
