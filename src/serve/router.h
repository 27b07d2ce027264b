// Thread rule: any thread; handle() never blocks: what takes longer runs on the router's own.
#pragma once

#include <memory>
#include <mutex>

#include "serve/http_server.h"
#include "serve/metrics.h"
#include "serve/openai_api.h"
#include "serve/recorder.h"

namespace ondol::serve {

/// Paths to work. It answers from the start: until an API is set, what needs the model is a 503.
class Router {
 public:
  /// `recorder`, where there is one, gets the requests that need the model and have a body; both
  /// must outlive the router and the requests.
  explicit Router(Metrics& metrics, Recorder* recorder = nullptr);
  ~Router();

  /// The HTTP server's handler.
  void handle(HttpRequest request, std::shared_ptr<Responder> responder);
  /// The model is loaded.
  void set_api(std::shared_ptr<OpenAiApi> api);
  /// Waits for the requests that are being read and lets go of the API; nothing is handled after.
  void stop();

 private:
  class Workers;
  struct Route;
  static const Route* find(std::string_view path);
  std::shared_ptr<OpenAiApi> api() const;
  void work(const Route& route, const HttpRequest& request,
            const std::shared_ptr<Responder>& responder);
  void health(Responder& responder) const;

  Metrics& metrics_;
  Recorder* const recorder_;
  mutable std::mutex mutex_;
  std::shared_ptr<OpenAiApi> api_;
  std::unique_ptr<Workers> workers_;
};

}  // namespace ondol::serve
