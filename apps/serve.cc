// serve: OpenAI's API over HTTP.
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <future>
#include <thread>

#include "base/units.h"
#include "common.h"
#include "config_file.h"
#include "engine/service.h"
#include "serve/http_server.h"
#include "serve/metrics.h"
#include "serve/openai_api.h"
#include "serve/recorder.h"
#include "serve/router.h"
#include "store/names.h"

namespace ondol::app {
namespace {

constexpr std::chrono::seconds kGrace{30};

struct ServeFlags {
  ModelFlags model;
  serve::HttpOptions http;
  int parallel = 4;
  int max_queue = 256;
  std::string kv_ram;
  bool no_prefix_cache = false;
  bool share_prefix = false;
  std::string record;
  ConfigFlags config;
};

/// SIGINT and SIGTERM ask for a stop, a second one ends the program at once; SIGHUP reads the keys
/// again. All threads that are started later leave these signals to this one.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    thread_ = std::thread([this] { run(); });
  }
  ~Signals() {
    ended_ = true;
    pthread_kill(thread_.native_handle(), SIGUSR1);
    thread_.join();
  }
  /// Returns when a stop was asked for.
  void wait() { asked_.get_future().wait(); }
  void set_server(serve::HttpServer* server) { server_ = server; }

 private:
  void run() {
    bool stopping = false;
    for (int signal = 0; sigwait(&set_, &signal) == 0 && !ended_;) {
      if (signal == SIGHUP) {
        reload();
      } else if (signal != SIGUSR1) {
        if (std::exchange(stopping, true)) _exit(130);
        asked_.set_value();
      }
    }
  }
  void reload() {
    serve::HttpServer* server = server_;
    if (server == nullptr) return;
    const auto done = server->reload_keys();
    if (!done) print_error(done.error());
    if (done) say("the API keys were read again\n");
  }

  sigset_t set_{};
  std::promise<void> asked_;
  std::atomic<bool> ended_ = false;
  std::atomic<serve::HttpServer*> server_ = nullptr;
  std::thread thread_;
};

/// What clients may call the model: its name in the store or of the file, and what the user typed.
serve::ModelNames names_of(const std::string& typed, const std::string& path) {
  serve::ModelNames names{.id = store::default_model_name(path)};
  if (store::is_model_name(typed)) names.id = typed;
  names.other = {store::default_model_name(path), std::string(store::base_name(path))};
  if (!typed.empty()) names.other.push_back(typed);
  return names;
}

Result<std::unique_ptr<engine::Engine>> open_engine(const ServeFlags& flags) {
  engine::EngineOptions options{
      .repack = true, .n_sequences = flags.parallel, .prefix_cache = !flags.no_prefix_cache};
  options.max_rows = std::max(options.max_rows, flags.parallel);
  if (!flags.kv_ram.empty()) {
    const auto bytes = parse_size(flags.kv_ram);
    if (!bytes) return propagate(bytes);
    options.kv_ram = *bytes;
  }
  return flags.model.open(options);
}

std::string url_of(const serve::HttpOptions& http, uint16_t port) {
  const bool v6 = http.host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", http.tls_cert.empty() ? "http" : "https", v6 ? "[" : "",
                     http.host, v6 ? "]" : "", port);
}

/// The file that requests are written to; null where none was asked for.
Result<std::unique_ptr<serve::Recorder>> open_recorder(const std::string& path) {
  if (path.empty()) return nullptr;
  auto recorder = serve::Recorder::open(Env::real(), path);
  if (recorder) say("recording every request, prompts included, in '{}'\n", path);
  return recorder;
}

Result<void> serve_model(const ServeFlags& flags) {
  const auto path = model_path(flags.model.model);
  if (!path) return propagate(path);
  Signals signals;
  serve::Metrics metrics;
  const auto recorder = open_recorder(flags.record);
  if (!recorder) return propagate(recorder);
  serve::Router router(metrics, recorder->get());
  serve::HttpOptions http = flags.http;
  http.on_refusal = [&](int status) { metrics.count_refusal(status); };
  // The port is open while the model loads: who comes early is told to wait.
  auto started = serve::HttpServer::start(
      std::move(http),
      [&](serve::HttpRequest request, std::shared_ptr<serve::Responder> responder) {
        router.handle(std::move(request), std::move(responder));
      });
  if (!started) return propagate(std::move(started));
  const auto server = std::move(*started);
  signals.set_server(server.get());
  auto engine = open_engine(flags);
  if (!engine) {
    signals.set_server(nullptr);
    server->stop(std::chrono::seconds(0));
    return propagate(std::move(engine));
  }
  engine::Service service(Env::real(), std::move(*engine),
                          {.n_sequences = flags.parallel,
                           .max_queue = flags.max_queue,
                           .on_step = [&](const auto& step) { metrics.observe_step(step); }});
  auto api = std::make_shared<serve::OpenAiApi>(
      service, metrics,
      serve::ApiOptions{.names = names_of(flags.model.model, *path),
                        .share_prefix = flags.share_prefix});
  router.set_api(std::move(api));
  say("ready on {}\n", url_of(flags.http, server->port()));
  signals.wait();
  say("stopping: answers under way have {} s (again to stop at once)\n", kGrace.count());
  service.stop(engine::Service::Stop::kFinish);
  server->stop(kGrace);
  signals.set_server(nullptr);
  router.stop();
  service.stop(engine::Service::Stop::kCancel);
  service.join();
  return {};
}

void add_http_flags(CLI::App& sub, serve::HttpOptions& http) {
  sub.add_option("--host", http.host,
                 "Address to listen on; one that others can reach needs --api-key-file")
      ->capture_default_str();
  sub.add_option("--port", http.port, "Port; 0: a free one, which the ready line names")
      ->capture_default_str();
  sub.add_option("--api-key-file", http.api_key_file,
                 "File with one `name:key` a line; SIGHUP reads it again");
  auto* cert = sub.add_option("--tls-cert", http.tls_cert, "Certificate chain (PEM): serve https");
  auto* key = sub.add_option("--tls-key", http.tls_key, "Its private key (PEM)")->needs(cert);
  cert->needs(key);
  sub.add_option("--cors-origin", http.cors_origins,
                 "Origin whose pages may call the API, like https://example.org; repeatable");
}

}  // namespace

void add_serve(CLI::App& app, int& exit_code) {
  auto& sub = command(app, "serve", "OpenAI's API over HTTP", "ondol serve smollm2 --port 8080");
  auto flags = std::make_shared<ServeFlags>();
  flags->model.add_to(sub);
  flags->model.add_repack_to(sub);
  add_http_flags(sub, flags->http);
  sub.add_option("--parallel", flags->parallel, "Requests computed at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 512));
  sub.add_option("--max-queue", flags->max_queue, "Requests that may wait; more get a 429")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
  sub.add_option("--kv-ram", flags->kv_ram,
                 "Memory for keys and values, like 512M or 8G (default: --parallel contexts)");
  sub.add_flag("--no-prefix-cache", flags->no_prefix_cache,
               "Compute every prompt anew, also what was read before");
  sub.add_flag("--share-prefix", flags->share_prefix,
               "Computed text is shared between API keys (default: each key has its own)");
  sub.add_option("--record", flags->record,
                 "Append every request with its prompt to this file, for `bench serve --workload`");
  flags->config.add_to(sub);
  on_chosen(sub, exit_code, [flags, &sub]() -> Result<void> {
    if (!flags->config.file.empty()) {
      if (auto read = read_config(sub, flags->config.file); !read) return read;
    }
    if (flags->config.print) return print(config_text(sub));
    return serve_model(*flags);
  });
}

}  // namespace ondol::app
