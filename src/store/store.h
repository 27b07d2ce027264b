// Thread rule: any thread; processes that share a store are kept apart by locks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "store/hub.h"

namespace ondol::store {

/// Where a model was pulled from.
struct Origin {
  std::string repo;  ///< org/repo
  std::vector<HubFile> files;
};

/// A model of the store.
struct Entry {
  std::string name;
  std::string path;   ///< the file to open: the first part of a split model
  uint64_t size = 0;  ///< bytes of all its parts
  bool is_link = false;
  bool is_missing = false;  ///< a link to a file that is gone
  std::optional<Origin> origin;
};

enum class ImportMode {
  kCopy,
  kLink,  ///< a symbolic link: no disk space, but the file must stay where it is
};

/// The models that are known by name. Under the root:
///   models/NAME.gguf, or models/NAME/ with the parts of a split model
///   models/.origin/NAME.json    where NAME was pulled from
///   models/.partial/NAME/       what an unfinished pull or import of NAME left
///   models/.partial/NAME:lock   held by whoever changes NAME
/// A file has its final name only once it is complete and verified.
class Store {
 public:
  Store(Env& env, std::string root) : env_(env), root_(std::move(root)) {}

  /// `$ONDOL_HOME`, else `$XDG_DATA_HOME/ondol`, else `$HOME/.local/share/ondol`. Usage error
  /// without any of them.
  static Result<std::string> default_root(const std::function<const char*(const char*)>& getenv);

  /// The file behind MODEL: a path, a name of the store, or `hf:org/repo[:file or quantisation]`
  /// that was pulled. The error for an unknown one names what is near.
  Result<std::string> resolve(std::string_view model) const;

  /// All models, by name.
  Result<std::vector<Entry>> list() const;
  /// The model kept under `name`; none is no error.
  Result<std::optional<Entry>> find(std::string_view name) const;

  /// Removes a model (of a link the link alone), and what an unfinished pull of it left. Returns
  /// the bytes given back.
  Result<uint64_t> remove(std::string_view name);

  /// Takes a GGUF file in under a name; of a split model the first part, and with it all others.
  /// Replaces a model of that name only if `replace`, but a link to the same file is simply kept.
  Result<Entry> import(const std::string& file, std::string_view name, ImportMode mode,
                       bool replace = false);

  // ---- for whoever fills the store (pull) ----
  /// Keeps every other process from changing `name`. Error if one is at it.
  Result<std::unique_ptr<FileLock>> lock(std::string_view name) const;
  /// The folder for unfinished files of `name`, made if it is not there.
  Result<std::string> partial_folder(std::string_view name) const;
  /// Gives complete files of the partial folder their final place: (present path, final file name)
  /// each, one file or all parts of a split model in order. Whatever had the name before is gone
  /// afterwards. Needs the lock.
  Result<Entry> publish(std::string_view name,
                        const std::vector<std::pair<std::string, std::string>>& files,
                        const std::optional<Origin>& origin);
  Result<void> write_origin(std::string_view name, const Origin& origin) const;
  Env& env() const { return env_; }

 private:
  std::string models() const { return root_ + "/models"; }
  std::string partial(std::string_view name) const;
  std::string origin_path(std::string_view name) const;
  std::optional<Origin> read_origin(std::string_view name) const;
  Result<std::optional<Entry>> read_entry(const std::string& file) const;
  Result<std::string> resolve_pulled(std::string_view model) const;
  std::string near_misses(std::string_view model, const std::vector<Entry>& entries) const;
  Result<uint64_t> remove_tree(const std::string& folder) const;
  Result<uint64_t> remove_published(std::string_view name) const;
  Result<void> copy(const std::string& from, const std::string& to) const;
  bool exists(const std::string& path) const;

  Env& env_;
  std::string root_;
};

}  // namespace ondol::store
