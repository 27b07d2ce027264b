// Thread rule: start() and tick() from any thread; the rest happens on the service's thread, and
// the client's leaving on a thread of the HTTP server. A lock keeps them apart.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/service.h"
#include "engine/text_stream.h"
#include "serve/http_server.h"
#include "serve/metrics.h"
#include "serve/openai_error.h"
#include "serve/openai_request.h"
#include "serve/openai_shapes.h"

namespace ondol::serve {

/// A request that has been read, down to token ids.
struct AnswerPlan {
  AnswerHead head;
  AnswerSettings settings;
  std::vector<TokenIds> prompts;
  std::string client;  ///< the name of the API key, for the metrics
  std::string tenant;  ///< who shares computed text
  Headers headers;     ///< of the answer, besides those of its form
};

/// One answer on its way to a client: choices come from the service, events or one JSON object go
/// to the responder. It keeps itself alive until it is complete.
class Answer : public std::enable_shared_from_this<Answer> {
 public:
  using Clock = std::chrono::steady_clock;

  /// Queues the choices. What is wrong is answered here, too.
  static std::shared_ptr<Answer> start(engine::Service& service, Metrics& metrics, AnswerPlan plan,
                                       std::shared_ptr<Responder> responder);
  /// Writes a comment into a stream that has been quiet for long.
  void tick(Clock::time_point now);

 private:
  struct Choice {
    engine::TextStream stream;
    std::string text;                     // whole answers: what was given out
    std::vector<TokenLogprob> held = {};  // of tokens whose text is held back
    std::vector<TokenLogprob> logprobs = {};
    std::string finish = {};
    bool role_sent = false;
    int n_prompt = 0;
    int n_cached = 0;
    int n_tokens = 0;
    int n_letters = 0;
    int n_steps = 0;
    Clock::time_point first = {};
    Clock::time_point last = {};
  };

  Answer(engine::Service& service, Metrics& metrics, AnswerPlan plan,
         std::shared_ptr<Responder> responder);
  bool prepare();
  void submit();
  void cancel();
  bool on_event(size_t index, const engine::Event& event);
  void take_token(Choice& choice, const engine::Event& event, std::string& text);
  void give(size_t index, std::string text);
  void begin_stream();
  void write(std::string part);
  void complete();
  void report();
  void fail(const ApiError& error);
  Usage usage() const;
  Timings timings() const;

  engine::Service& service_;
  Metrics& metrics_;
  AnswerPlan plan_;
  std::shared_ptr<Responder> responder_;
  const Clock::time_point arrived_ = Clock::now();

  std::mutex ids_mutex_;
  std::vector<uint64_t> ids_;
  std::atomic<bool> gone_ = false;

  std::mutex mutex_;  // all that follows
  std::vector<Choice> choices_;
  size_t n_open_ = 0;
  bool streaming_ = false;
  bool over_ = false;
  Clock::time_point last_write_;
};

/// Reminds answers of the time, once a second, from a thread of its own.
class KeepAlive {
 public:
  KeepAlive();
  ~KeepAlive();
  void add(std::weak_ptr<Answer> answer);

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::vector<std::weak_ptr<Answer>> answers_;
  std::thread thread_;
};

}  // namespace ondol::serve
