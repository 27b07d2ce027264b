#include "bench/load_client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <map>

namespace ondol::bench {
namespace {

using Headers = std::unique_ptr<curl_slist, void (*)(curl_slist*)>;

/// One request under way.
struct Transfer {
  std::unique_ptr<CURL, void (*)(CURL*)> easy{nullptr, curl_easy_cleanup};
  std::string body;
  LoadClient::OnData on_data;
  LoadClient::OnEnd on_end;
  bool stopped = false;
};

size_t take_data(const char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view part(data, size * count);
  if (transfer.on_data(part)) return part.size();
  transfer.stopped = true;
  return CURL_WRITEFUNC_ERROR;
}

bool is_on_this_machine(std::string_view url) {
  const std::string_view host = url.substr(url.find("://") + 3);
  return host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]");
}

class CurlClient : public LoadClient {
 public:
  CurlClient(LoadClientOptions options, CURLM* multi)
      : options_(std::move(options)), multi_(multi, curl_multi_cleanup) {
    add_header("Content-Type: application/json");
    add_header("Accept: text/event-stream, application/json");
    add_header("Expect:");  // a body above 1 MiB is sent at once
    if (!options_.api_key.empty()) add_header("Authorization: Bearer " + options_.api_key);
  }
  ~CurlClient() override { abandon(); }

  Result<void> start(const std::string& url, std::string body, OnData on_data,
                     OnEnd on_end) override {
    auto transfer = std::make_unique<Transfer>();
    transfer->easy.reset(curl_easy_init());
    if (!transfer->easy) return failed("libcurl could not make a request: out of memory?");
    transfer->body = std::move(body);
    transfer->on_data = std::move(on_data);
    transfer->on_end = std::move(on_end);
    CURL* easy = transfer->easy.get();
    prepare(easy, url, *transfer);
    if (const auto code = curl_multi_add_handle(multi_.get(), easy); code != CURLM_OK)
      return failed(fmt::format("libcurl: {}", curl_multi_strerror(code)));
    transfers_.emplace(easy, std::move(transfer));
    return {};
  }

  Result<void> wait(std::chrono::milliseconds longest) override {
    int running = 0;
    auto code = curl_multi_perform(multi_.get(), &running);
    if (code == CURLM_OK && !report_ended()) {
      code = curl_multi_poll(multi_.get(), nullptr, 0, static_cast<int>(longest.count()), nullptr);
      if (code == CURLM_OK) code = curl_multi_perform(multi_.get(), &running);
      report_ended();
    }
    if (code != CURLM_OK) return failed(fmt::format("libcurl: {}", curl_multi_strerror(code)));
    return {};
  }

  size_t busy() const override { return transfers_.size(); }

  void abandon() override {
    for (const auto& [easy, transfer] : transfers_) curl_multi_remove_handle(multi_.get(), easy);
    transfers_.clear();
  }

 private:
  void add_header(const std::string& line) {
    curl_slist* longer = curl_slist_append(headers_.get(), line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    if (!headers_) headers_.reset(longer);  // else the list begins where it did
  }

  void prepare(CURL* easy, const std::string& url, Transfer& transfer) {
    curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                     static_cast<long>(options_.connect_timeout.count()));
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(options_.timeout.count()));
    if (is_on_this_machine(url)) curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers_.get());
    if (!transfer.body.empty()) {
      curl_easy_setopt(easy, CURLOPT_POST, 1L);
      curl_easy_setopt(easy, CURLOPT_POSTFIELDS, transfer.body.data());
      curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                       static_cast<curl_off_t>(transfer.body.size()));
    }
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_data);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
  }

  /// Reports what has ended; whether anything did.
  bool report_ended() {
    std::vector<std::pair<CURL*, CURLcode>> ended;
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
      if (message->msg == CURLMSG_DONE)
        ended.emplace_back(message->easy_handle, message->data.result);
    }
    for (const auto& [easy, code] : ended) {
      const auto found = transfers_.find(easy);
      const auto transfer = std::move(found->second);
      transfers_.erase(found);
      LoadEnd end;
      curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &end.status);
      curl_multi_remove_handle(multi_.get(), easy);
      if (code != CURLE_OK && !transfer->stopped) end.problem = curl_easy_strerror(code);
      if (transfer->stopped) end.problem = "the answer was given up";
      end.timed_out = code == CURLE_OPERATION_TIMEDOUT;
      end.not_connected = code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST;
      transfer->on_end(end);
    }
    return !ended.empty();
  }

  const LoadClientOptions options_;
  Headers headers_{nullptr, curl_slist_free_all};
  std::unique_ptr<CURLM, CURLMcode (*)(CURLM*)> multi_;
  std::map<CURL*, std::unique_ptr<Transfer>> transfers_;
};

}  // namespace

Result<std::unique_ptr<LoadClient>> LoadClient::make(LoadClientOptions options) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  CURLM* multi = ready == CURLE_OK ? curl_multi_init() : nullptr;
  if (multi == nullptr) return failed("libcurl could not be started");
  if (options.api_key.find_first_of("\r\n") != std::string::npos) {
    curl_multi_cleanup(multi);
    return usage_error("the API key has a line break in it");
  }
  // As many idle connections as there may be requests: none is opened twice.
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, 4096L);
  return std::make_unique<CurlClient>(std::move(options), multi);
}

Result<std::string> server_root(std::string_view url) {
  const bool known = url.starts_with("http://") || url.starts_with("https://");
  if (!known || url.find_first_of(" \t\r\n\"") != std::string_view::npos || url.ends_with("://")) {
    return usage_error(
        fmt::format("'{}' is no address of a server; give one like http://127.0.0.1:8080", url));
  }
  while (url.ends_with('/')) url.remove_suffix(1);
  if (url.ends_with("/v1")) url.remove_suffix(3);
  return std::string(url);
}

}  // namespace ondol::bench
