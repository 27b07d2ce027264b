#include "serve/router.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <exception>

#include "base/log.h"

namespace ondol::serve {
namespace {

constexpr int kWorkers = 2;
constexpr std::string_view kModelPrefix = "/v1/models/";

using Object = boost::json::object;
/// Each of these answers the request, now or later.
using Work = void (*)(OpenAiApi&, Metrics&, const HttpRequest&, const std::shared_ptr<Responder>&);

void reply(Metrics& metrics, Responder& responder, const ApiResult<Object>& result) {
  if (result) {
    send_json(responder, 200, *result);
  } else {
    send_error(responder, metrics, result.error());
  }
}

/// Counts how a request was answered, and has it recorded where that was asked for; everything else
/// is the HTTP server's.
class CountingResponder : public Responder {
 public:
  CountingResponder(Metrics& metrics, std::string path, std::shared_ptr<Responder> inner)
      : metrics_(metrics), path_(std::move(path)), inner_(std::move(inner)) {}
  ~CountingResponder() override {
    if (recorder_ != nullptr) recorder_->add(std::move(record_));
  }
  /// Before the request is worked on.
  void record(Recorder& recorder, const HttpRequest& request) {
    recorder_ = &recorder;
    record_ = {.arrived = std::chrono::steady_clock::now(),
               .key = request.client,
               .path = path_,
               .body = request.body};
  }
  void send(int status, Headers headers, std::string body) override {
    count(status);
    inner_->send(status, std::move(headers), std::move(body));
  }
  void start_stream(int status, Headers headers) override {
    count(status);
    inner_->start_stream(status, std::move(headers));
  }
  bool write(std::string part) override { return inner_->write(std::move(part)); }
  void end() override { inner_->end(); }
  void on_gone(std::function<void()> gone) override { inner_->on_gone(std::move(gone)); }
  void report(const AnswerFigures& figures) override { record_.figures = figures; }

 private:
  void count(int status) {
    metrics_.count_request(path_, status);
    record_.status = status;
  }

  Metrics& metrics_;
  std::string path_;
  std::shared_ptr<Responder> inner_;
  Recorder* recorder_ = nullptr;
  RecordedRequest record_;
};

}  // namespace

class Router::Workers {
 public:
  Workers() : pool_(kWorkers) {}
  ~Workers() { wait(); }
  void wait() { pool_.join(); }
  void run(std::function<void()> work) { boost::asio::post(pool_, std::move(work)); }

 private:
  boost::asio::thread_pool pool_;
};

struct Router::Route {
  std::string_view path;
  std::string_view method;
  Work work;  ///< null: answered without the model
};

const Router::Route* Router::find(std::string_view path) {
  static constexpr auto with_body =
      []<ApiResult<Object> (OpenAiApi::*member)(std::string_view) const>() -> Work {
    return [](OpenAiApi& api, Metrics& metrics, const HttpRequest& request,
              const std::shared_ptr<Responder>& responder) {
      reply(metrics, *responder, (api.*member)(request.body));
    };
  };
  static const Route routes[] = {
      {"/", "GET", nullptr},
      {"/health", "GET", nullptr},
      {"/metrics", "GET", nullptr},
      {"/v1/chat/completions", "POST",
       [](OpenAiApi& api, Metrics&, const HttpRequest& request, const auto& responder) {
         api.chat(request, responder);
       }},
      {"/v1/completions", "POST",
       [](OpenAiApi& api, Metrics&, const HttpRequest& request, const auto& responder) {
         api.complete(request, responder);
       }},
      {"/v1/embeddings", "POST", with_body.operator()<&OpenAiApi::embed>()},
      {"/tokenize", "POST", with_body.operator()<&OpenAiApi::tokenize>()},
      {"/detokenize", "POST", with_body.operator()<&OpenAiApi::detokenize>()},
      {"/apply-template", "POST", with_body.operator()<&OpenAiApi::apply_template>()},
      {"/v1/models", "GET",
       [](OpenAiApi& api, Metrics& metrics, const HttpRequest&, const auto& responder) {
         reply(metrics, *responder, api.list_models());
       }},
      {kModelPrefix, "GET",
       [](OpenAiApi& api, Metrics& metrics, const HttpRequest& request, const auto& responder) {
         reply(metrics, *responder, api.show_model(request.path.substr(kModelPrefix.size())));
       }},
  };
  for (const Route& route : routes) {
    if (path == route.path) return route.path == kModelPrefix ? nullptr : &route;
    if (route.path == kModelPrefix && path.starts_with(kModelPrefix)) return &route;
  }
  return nullptr;
}

Router::Router(Metrics& metrics, Recorder* recorder)
    : metrics_(metrics), recorder_(recorder), workers_(std::make_unique<Workers>()) {}
Router::~Router() = default;

void Router::set_api(std::shared_ptr<OpenAiApi> api) {
  const std::lock_guard lock(mutex_);
  api_ = std::move(api);
}

void Router::stop() {
  workers_->wait();
  set_api(nullptr);
}

std::shared_ptr<OpenAiApi> Router::api() const {
  const std::lock_guard lock(mutex_);
  return api_;
}

void Router::health(Responder& responder) const {
  const bool ready = api() != nullptr;
  send_json(responder, ready ? 200 : 503, {{"status", ready ? "ok" : "loading"}},
            ready ? Headers() : Headers{{"Retry-After", "1"}});
}

void Router::handle(HttpRequest request, std::shared_ptr<Responder> inner) {
  const Route* route = find(request.path);
  // Paths that do not exist share one label: a client must not be able to make new ones.
  auto responder = std::make_shared<CountingResponder>(
      metrics_, std::string(route == nullptr ? "other" : route->path), std::move(inner));
  if (route == nullptr) {
    send_error(*responder, metrics_,
               {.status = 404,
                .message = fmt::format("there is no {}; the API is under /v1/, for instance "
                                       "/v1/chat/completions",
                                       request.path.substr(0, 200)),
                .code = "unknown_url"});
    return;
  }
  if (request.method != route->method) {
    send_error(*responder, metrics_,
               {.status = 405,
                .message = fmt::format("{} takes {}, not {}", route->path, route->method,
                                       request.method.substr(0, 20)),
                .code = "method_not_allowed",
                .headers = {{"Allow", std::string(route->method)}}});
    return;
  }
  if (route->path == "/") {
    responder->send(200, {{"Content-Type", "text/plain; charset=utf-8"}},
                    "Ondol: OpenAI's API is at /v1, the state at /health and /metrics.\n");
  } else if (route->path == "/health") {
    health(*responder);
  } else if (route->path == "/metrics") {
    const auto there = api();
    responder->send(200, {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}},
                    metrics_.text(there ? &there->service() : nullptr));
  } else {
    if (recorder_ != nullptr && route->method == "POST") responder->record(*recorder_, request);
    workers_->run([this, route, request = std::move(request), responder] {
      work(*route, request, responder);
    });
  }
}

void Router::work(const Route& route, const HttpRequest& request,
                  const std::shared_ptr<Responder>& responder) {
  const auto there = api();
  if (!there) {
    send_error(*responder, metrics_,
               {.status = 503,
                .message = "the model is being loaded; try again in a moment",
                .code = "loading",
                .type = "server_error",
                .headers = {{"Retry-After", "1"}}});
    return;
  }
  try {
    route.work(*there, metrics_, request, responder);
  } catch (const std::exception& error) {  // out of memory: this request's end, not the server's
    spdlog::error("{}: {}", route.path, error.what());
    metrics_.count_error(error_kind(500));
  }
}

}  // namespace ondol::serve
