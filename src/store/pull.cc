#include "store/pull.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <thread>
#include <utility>

#include "base/sha256.h"
#include "base/units.h"
#include "store/http.h"
#include "store/hub.h"

namespace ondol::store {
namespace {

constexpr uint64_t kMostListingBytes = 16 << 20;
constexpr int kMostPages = 50;
constexpr uint64_t kRealProgress = 1 << 20;

std::unexpected<Error> interrupted() {
  return fail(ErrorKind::kInterrupted,
              "the pull was interrupted; the same command goes on where it stopped");
}

/// A small answer, kept in memory.
class TextSink final : public HttpSink {
 public:
  Result<void> begin(const HttpHead&) override { return {}; }
  Result<void> write(std::span<const std::byte> bytes) override {
    if (text.size() + bytes.size() > kMostListingBytes) {
      return refused(
          fmt::format("the hub's list of files is larger than {}", format_size(kMostListingBytes)));
    }
    for (const std::byte byte : bytes) text.push_back(static_cast<char>(byte));
    return {};
  }
  std::string text;
};

/// `bytes 100-199/200` -> {100, 200}; the total may be unknown.
std::optional<std::pair<uint64_t, std::optional<uint64_t>>> parse_content_range(
    std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const auto number = [&](char after) -> std::optional<uint64_t> {
    uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [at, code] = std::from_chars(text.data(), end, value);
    const bool followed = after == '\0' ? at == end : at != end && *at == after;
    if (code != std::errc{} || !followed) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(at - text.data()) + (after == '\0' ? 0 : 1));
    return value;
  };
  const auto first = number('-');
  if (!first || !number('/')) return std::nullopt;
  if (text == "*") return std::pair(*first, std::optional<uint64_t>());
  const auto total = number('\0');
  if (!total) return std::nullopt;
  return std::pair(*first, total);
}

/// Adds bytes to a digest in pieces; `tick` is asked before each, with the bytes so far, whether to
/// go on.
Result<void> hash_bytes(std::span<const std::byte> bytes, Sha256& hash,
                        const std::function<bool(uint64_t)>& tick) {
  constexpr size_t kPiece = 4 << 20;
  for (size_t done = 0; done < bytes.size(); done += kPiece) {
    if (!tick(done)) return interrupted();
    hash.update(bytes.subspan(done, std::min(kPiece, bytes.size() - done)));
  }
  return {};
}

/// The unfinished file on the disk, with the digest of what is in it.
class PartFile final : public HttpSink {
 public:
  PartFile(Env& env, std::string path, const HubFile& wanted)
      : env_(env), path_(std::move(path)), wanted_(wanted) {}

  /// Takes up what an earlier pull left. `tick` is asked between pieces whether to go on.
  Result<void> open(const std::function<bool(uint64_t)>& tick) {
    const auto info = env_.info(path_);
    if (!info || info->size > wanted_.size) return restart();
    if (info->size > 0) {
      const auto mapped = env_.map(path_);
      if (!mapped) return propagate(mapped);
      const auto bytes = (*mapped)->bytes();
      if (auto done = hash_bytes(bytes, hash_, tick); !done) return done;
      size_ = bytes.size();
      resumed_ = true;
    }
    return reopen(WriteMode::kAppend);
  }

  /// Throws away what is there and starts from the first byte.
  Result<void> restart() {
    (void)hash_.finish();
    size_ = 0;
    resumed_ = false;
    return reopen(WriteMode::kTruncate);
  }

  Result<void> begin(const HttpHead& head) override {
    if (head.content_type.starts_with("text/html")) {
      return failed(fmt::format(
          "the server sends a web page instead of '{}'; check HF_ENDPOINT and the network",
          wanted_.path));
    }
    if (head.status == 206) {
      const auto range = parse_content_range(head.content_range);
      if (!range || range->first != size_ || range->second.value_or(wanted_.size) != wanted_.size) {
        return refused(
            fmt::format("the server answers with '{}' where byte {} of {} of '{}' was asked for",
                        head.content_range, size_, wanted_.size, wanted_.path));
      }
    } else if (size_ > 0) {
      // The server does not do ranges and sends the whole file.
      if (auto done = restart(); !done) return done;
    }
    if (head.content_length && *head.content_length != wanted_.size - size_) {
      return refused(
          fmt::format("the server announces {} bytes for '{}', where the hub's list leaves {}",
                      *head.content_length, wanted_.path, wanted_.size - size_));
    }
    return {};
  }

  Result<void> write(std::span<const std::byte> bytes) override {
    if (bytes.size() > wanted_.size - size_) {
      (void)discard();
      return refused(fmt::format(
          "the server sends more than the {} bytes it announced for '{}'; nothing is kept",
          wanted_.size, wanted_.path));
    }
    if (auto done = file_->append(bytes); !done) return done;
    hash_.update(bytes);
    size_ += bytes.size();
    received_ += bytes.size();
    return {};
  }

  /// Whether the complete file has the right digest.
  bool verify() { return hash_.finish() == wanted_.sha256; }

  Result<void> close() {
    if (auto done = file_->sync(); !done) return done;
    return std::exchange(file_, nullptr)->close();
  }

  Result<void> discard() {
    file_.reset();
    return env_.remove(path_);
  }

  uint64_t size() const { return size_; }
  uint64_t received() const { return received_; }
  bool resumed() const { return resumed_; }
  bool complete() const { return size_ == wanted_.size; }
  const std::string& path() const { return path_; }

 private:
  Result<void> reopen(WriteMode mode) {
    file_.reset();
    auto file = env_.open_writable(path_, mode);
    if (!file) return propagate(std::move(file));
    file_ = std::move(*file);
    return {};
  }

  Env& env_;
  std::string path_;
  const HubFile& wanted_;
  std::unique_ptr<WritableFile> file_;
  Sha256 hash_;
  uint64_t size_ = 0;
  uint64_t received_ = 0;  ///< over the network
  bool resumed_ = false;
};

class Puller {
 public:
  Puller(Store& store, const HubSpec& spec, const PullOptions& options)
      : store_(store), env_(store.env()), spec_(spec), options_(options) {}

  Result<Pulled> run();

 private:
  Result<std::vector<HubFile>> fetch_listing();
  Result<bool> is_current(const Entry& present, const std::vector<HubFile>& files);
  Result<void> check_space(const std::string& folder, const std::vector<HubFile>& files) const;
  Result<std::string> fetch(const std::string& folder, const HubFile& file);
  Result<void> fetch_bytes(PartFile& part, const HubFile& file);
  /// Before attempt number `failures` + 1; error if there is none any more, or if the user stops.
  Result<void> wait(int failures, const HttpFailure& failure);
  bool tick(uint64_t done_of_file = 0) const {
    return !options_.on_progress || options_.on_progress({current_, done_ + done_of_file, total_});
  }

  Store& store_;
  Env& env_;
  const HubSpec& spec_;
  const PullOptions& options_;
  std::string endpoint_;
  std::optional<HttpClient> client_;
  const PartFile* part_ = nullptr;  ///< the file that is being fetched
  std::string current_;
  uint64_t done_ = 0;  ///< bytes of the files before it
  uint64_t total_ = 0;
  uint64_t downloaded_ = 0;
};

Result<void> Puller::wait(int failures, const HttpFailure& failure) {
  if (failure.error.kind == ErrorKind::kInterrupted) return interrupted();
  if (!failure.transient) return std::unexpected(failure.error);
  if (failures > options_.max_retries) {
    return failed(fmt::format("{} (after {} attempts; what has arrived is kept for the next pull)",
                              failure.error.message, failures));
  }
  using std::chrono::milliseconds;
  auto left = std::min<milliseconds>(options_.backoff * (1 << std::min(failures - 1, 10)),
                                     milliseconds(30'000));
  if (failure.retry_after) left = std::max<milliseconds>(left, *failure.retry_after);
  while (left.count() > 0) {
    if (!tick(part_ == nullptr ? 0 : part_->size())) return interrupted();
    const auto nap = std::min(left, milliseconds(50));
    std::this_thread::sleep_for(nap);
    left -= nap;
  }
  return {};
}

Result<std::vector<HubFile>> Puller::fetch_listing() {
  std::vector<HubFile> files;
  std::string url = fmt::format("{}/api/models/{}/tree/main?recursive=true", endpoint_, spec_.repo);
  for (int page = 0; !url.empty(); ++page) {
    if (page == kMostPages)
      return refused(fmt::format("the hub's list of files of '{}' has no end", spec_.repo));
    std::optional<HttpHead> head;
    TextSink body;
    for (int failures = 1; !head; ++failures) {
      body.text.clear();
      auto answer = client_->get(url, 0, body);
      if (answer) {
        head = std::move(*answer);
      } else if (auto again = wait(failures, answer.error()); !again) {
        return propagate(std::move(again));
      }
    }
    auto more = parse_listing(body.text);
    if (!more) return more;
    files.insert(files.end(), more->begin(), more->end());
    url = next_page(head->link);
    if (!url.empty() && !same_origin(url, endpoint_)) {
      return refused(
          fmt::format("the hub's list of files of '{}' goes on at another server", spec_.repo));
    }
  }
  return files;
}

/// Whether what the store has under the name is what the hub has. Error if it is something else
/// altogether.
Result<bool> Puller::is_current(const Entry& present, const std::vector<HubFile>& files) {
  uint64_t size = 0;
  for (const HubFile& file : files) size += file.size;
  if (present.origin && present.origin->repo == spec_.repo &&
      present.origin->files.size() == files.size()) {
    const bool same =
        std::ranges::equal(present.origin->files, files, {}, &HubFile::sha256, &HubFile::sha256);
    if (present.origin->files[0].path == files[0].path)
      return same && !present.is_missing && present.size == size;
  }
  if (!present.origin && !present.is_missing && files.size() == 1 && present.size == size) {
    // Imported, or the note of where it came from is lost: the content decides.
    const auto mapped = env_.map(present.path);
    if (!mapped) return propagate(mapped);
    Sha256 hash;
    const auto tell = [&](uint64_t done) { return tick(done); };
    if (auto done = hash_bytes((*mapped)->bytes(), hash, tell); !done)
      return propagate(std::move(done));
    if (hash.finish() == files[0].sha256) {
      if (auto written = store_.write_origin(present.name, {spec_.repo, files}); !written) {
        return propagate(std::move(written));
      }
      return true;
    }
  }
  return usage_error(
      fmt::format("the store has another model '{0}' already; choose a name with --name, or `ondol "
                  "rm {0}` first",
                  present.name));
}

Result<void> Puller::check_space(const std::string& folder,
                                 const std::vector<HubFile>& files) const {
  uint64_t missing = 0;
  for (const HubFile& file : files) {
    uint64_t have = 0;
    for (const char* suffix : {".part", ".gguf"}) {
      have = std::max(
          have,
          env_.info(fmt::format("{}/{}{}", folder, file.sha256, suffix)).value_or(FileInfo{}).size);
    }
    missing += file.size - std::min(have, file.size);
  }
  const auto room = env_.free_space(folder);
  if (!room) return propagate(room);
  if (*room >= missing) return {};
  return failed(fmt::format("'{}' needs {} more, but only {} are free on the disk of '{}'",
                            spec_.repo, format_size(missing), format_size(*room), folder));
}

Result<void> Puller::fetch_bytes(PartFile& part, const HubFile& file) {
  const std::string url =
      fmt::format("{}/{}/resolve/main/{}", endpoint_, spec_.repo, encode_path(file.path));
  int failures = 0;
  uint64_t at_failure = 0;
  while (!part.complete()) {
    auto answer = client_->get(url, part.size(), part);
    // A line that breaks after the last byte does no harm; a body that goes on after it does.
    if (part.complete() && (answer || answer.error().transient)) break;
    HttpFailure failure;
    if (answer) {
      failure.error.message = fmt::format("the server ended '{}' after {} of {} bytes", file.path,
                                          part.size(), file.size);
      failure.transient = true;
    } else {
      failure = std::move(answer.error());
    }
    if (failure.status == 416 && part.size() > 0) {  // it says that there is nothing from here on
      if (auto done = part.restart(); !done) return done;
      failure.transient = true;
    }
    if (part.received() >= at_failure + kRealProgress) failures = 0;
    at_failure = part.received();
    if (auto again = wait(++failures, failure); !again) return again;
  }
  return {};
}

/// Fetches and verifies one file; returns where it lies, still in the partial folder.
Result<std::string> Puller::fetch(const std::string& folder, const HubFile& file) {
  const std::string verified = fmt::format("{}/{}.gguf", folder, file.sha256);
  if (const auto info = env_.info(verified); info && info->size == file.size) return verified;
  PartFile part(env_, fmt::format("{}/{}.part", folder, file.sha256), file);
  part_ = &part;
  if (auto opened = part.open([&](uint64_t done) { return tick(done); }); !opened)
    return propagate(std::move(opened));
  while (true) {
    const bool resumed = part.resumed();
    auto fetched = fetch_bytes(part, file);
    if (!fetched) return propagate(std::move(fetched));
    if (part.verify()) break;
    if (!resumed) {
      (void)part.discard();
      return refused(fmt::format(
          "what the server sent as '{}' does not have the SHA-256 that the hub states; nothing "
          "is kept",
          file.path));
    }
    // The left-over of an earlier pull may be what is wrong: once more, from the first byte.
    if (auto done = part.restart(); !done) return propagate(std::move(done));
  }
  downloaded_ += part.received();
  if (auto closed = part.close(); !closed) return propagate(std::move(closed));
  if (auto moved = env_.rename(part.path(), verified); !moved) return propagate(std::move(moved));
  return verified;
}

Result<Pulled> Puller::run() {
  endpoint_ = options_.endpoint;
  while (endpoint_.ends_with('/')) endpoint_.pop_back();
  auto client =
      HttpClient::make({endpoint_, options_.token, options_.connect_timeout, options_.stall_timeout,
                        [this] { return tick(part_ == nullptr ? 0 : part_->size()); }});
  if (!client) return propagate(std::move(client));
  client_.emplace(std::move(*client));

  const auto listing = fetch_listing();
  if (!listing) return propagate(listing);
  const auto files = select_model(*listing, spec_.repo, spec_.selector);
  if (!files) return propagate(files);
  for (const HubFile& file : *files) {
    if (file.sha256.empty() || file.size == 0) {
      return refused(fmt::format(
          "the hub states no SHA-256 or size for '{}', so that it could not be verified",
          file.path));
    }
    if (file.size > UINT64_MAX / 2 - total_)
      return refused(fmt::format("the hub states an impossible size for '{}'", file.path));
    total_ += file.size;
  }
  const std::string name =
      options_.name.empty() ? default_model_name(files->front().path) : options_.name;
  const auto held = store_.lock(name);
  if (!held) return propagate(held);
  auto present = store_.find(name);
  if (!present) return propagate(std::move(present));
  if (*present) {
    const auto current = is_current(**present, *files);
    if (!current) return propagate(current);
    if (*current) {
      (*present)->origin = Origin{spec_.repo, *files};
      return Pulled{std::move(**present), 0, true};
    }
  }

  const auto folder = store_.partial_folder(name);
  if (!folder) return propagate(folder);
  if (auto room = check_space(*folder, *files); !room) return propagate(std::move(room));
  std::vector<std::pair<std::string, std::string>> staged;
  for (const HubFile& file : *files) {
    current_ = file.path;
    if (!tick()) return interrupted();
    auto path = fetch(*folder, file);
    part_ = nullptr;
    if (!path) return propagate(std::move(path));
    staged.emplace_back(std::move(*path), base_name(file.path));
    done_ += file.size;
  }
  if (!tick()) return interrupted();
  auto entry = store_.publish(name, staged, Origin{spec_.repo, *files});
  if (!entry) return propagate(std::move(entry));
  return Pulled{std::move(*entry), downloaded_, false};
}

}  // namespace

PullOptions PullOptions::from_environment(const std::function<const char*(const char*)>& getenv) {
  PullOptions options;
  const auto take = [&](const char* name, std::string& into) {
    const char* value = getenv(name);
    if (value != nullptr && *value != '\0') into = value;
  };
  take("HF_ENDPOINT", options.endpoint);
  take("HF_TOKEN", options.token);
  return options;
}

Result<Pulled> pull(Store& store, const HubSpec& spec, const PullOptions& options) {
  return Puller(store, spec, options).run();
}

}  // namespace ondol::store
