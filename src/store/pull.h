// Thread rule: one pull per thread; pulls of the same model are kept apart by the store's lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/names.h"
#include "store/store.h"

namespace ondol::store {

struct Progress {
  std::string_view file;  ///< path in the repository; empty while the list of files is fetched
  uint64_t done = 0;      ///< bytes of the whole model that are on the disk
  uint64_t total = 0;     ///< bytes of the whole model; 0 while unknown
};

struct PullOptions {
  std::string endpoint = "https://huggingface.co";
  std::string token;  ///< sent to the endpoint's own host only
  std::string name;   ///< under which to keep the model; empty: that of its file
  std::chrono::milliseconds connect_timeout{15'000};
  std::chrono::seconds stall_timeout{30};
  std::chrono::milliseconds backoff{
      1'000};           ///< before the first new attempt; doubles each time, 30 s at most
  int max_retries = 5;  ///< in a row without at least 1 MiB in between
  /// Called often, about once a second even if nothing arrives. False stops the pull; what has
  /// arrived is kept.
  std::function<bool(const Progress&)> on_progress;

  /// The defaults with `HF_ENDPOINT` and `HF_TOKEN`.
  static PullOptions from_environment(const std::function<const char*(const char*)>& getenv);
};

struct Pulled {
  Entry entry;
  uint64_t downloaded = 0;  ///< bytes
  bool up_to_date = false;  ///< it was there already
};

/// Fetches a model from a hub with Hugging Face's layout (`/api/models/{repo}/tree/main`,
/// `/{repo}/resolve/main/{file}`) into the store. A broken transfer is tried again and resumed
/// where it stopped, also by a later pull; the model appears under its name only when every file
/// has the size and SHA-256 that the hub states. Errors: kUsage (no such model or file, name
/// taken), kRefused (the server's data contradicts what it announced), kFailed (network, disk),
/// kInterrupted.
Result<Pulled> pull(Store& store, const HubSpec& spec, const PullOptions& options);

}  // namespace ondol::store
