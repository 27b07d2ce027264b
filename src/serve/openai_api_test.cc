#include "serve/openai_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>

#include "serve/router.h"
#include "support/support.h"

namespace ondol::serve {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

/// Keeps what a client would see; its owner can let the client leave.
class FakeResponder : public Responder {
 public:
  void send(int status, Headers headers, std::string body) override {
    const std::lock_guard lock(mutex_);
    status_ = status;
    headers_ = std::move(headers);
    body_ = std::move(body);
    ended_ = true;
    changed_.notify_all();
  }
  void start_stream(int status, Headers headers) override {
    const std::lock_guard lock(mutex_);
    status_ = status;
    headers_ = std::move(headers);
  }
  bool write(std::string part) override {
    const std::lock_guard lock(mutex_);
    body_ += part;
    ++writes_;
    changed_.notify_all();
    return !left_;
  }
  void end() override {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  void on_gone(std::function<void()> gone) override {
    const std::lock_guard lock(mutex_);
    gone_ = std::move(gone);
  }

  void leave() {
    std::function<void()> gone;
    {
      const std::lock_guard lock(mutex_);
      left_ = true;
      gone = gone_;
    }
    if (gone) gone();
  }
  void wait_for_write() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return writes_ > 0 || ended_; });
  }
  FakeResponder& wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_; });
    return *this;
  }
  int status() const { return status_; }
  const std::string& body() const { return body_; }
  json::value json() const { return json::parse(body_); }
  std::string header(std::string_view name) const {
    for (const auto& [key, value] : headers_) {
      if (key == name) return value;
    }
    return {};
  }
  /// The data of each event, without the last, which must be [DONE].
  std::vector<json::value> events() const {
    std::vector<json::value> events;
    std::string_view rest = body_;
    while (!rest.empty()) {
      const size_t end = rest.find("\n\n");
      const std::string_view event = rest.substr(0, end);
      if (event == "data: [DONE]") return events;
      EXPECT_TRUE(event.starts_with("data: ")) << event;
      events.push_back(json::parse(event.substr(6)));
      rest.remove_prefix(end + 2);
    }
    ADD_FAILURE() << "the stream has no [DONE]";
    return events;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> gone_;
  int status_ = 0;
  int writes_ = 0;
  bool ended_ = false;
  bool left_ = false;
  Headers headers_;
  std::string body_;
};

class Api : public testing::Test {
 protected:
  void open(int n_ctx = 256, int n_sequences = 2, int max_queue = 8) {
    auto engine = engine::Engine::open(Env::real(), test::data_path("models/llama.gguf"),
                                       {.n_ctx = n_ctx, .threads = 1, .n_sequences = n_sequences});
    ASSERT_TRUE(engine) << engine.error().message;
    service_ = std::make_unique<engine::Service>(
        Env::real(), std::move(*engine),
        engine::ServiceOptions{.n_sequences = n_sequences, .max_queue = max_queue});
    router_.set_api(std::make_shared<OpenAiApi>(
        *service_, metrics_, ApiOptions{.names = {.id = "toy", .other = {"toy.gguf"}}}));
  }
  ~Api() override {
    router_.stop();
    if (service_) {
      service_->stop(engine::Service::Stop::kCancel);
      service_->join();
    }
  }
  std::shared_ptr<FakeResponder> send(std::string method, std::string path, std::string body = {}) {
    auto responder = std::make_shared<FakeResponder>();
    router_.handle({.method = std::move(method), .path = std::move(path), .body = std::move(body)},
                   responder);
    return responder;
  }
  std::shared_ptr<FakeResponder> complete(std::string_view fields) {
    return send("POST", "/v1/completions",
                R"({"model":"toy","prompt":[5,6,7],"temperature":0,"ignore_eos":true,)" +
                    std::string(fields) + "}");
  }

  Metrics metrics_;
  Router router_{metrics_};
  std::unique_ptr<engine::Service> service_;
};

TEST_F(Api, LoadingIsA503AndHealthSaysSo) {
  EXPECT_EQ(send("GET", "/health")->wait().status(), 503);
  EXPECT_EQ(send("POST", "/v1/chat/completions", "{}")->wait().status(), 503);
  EXPECT_EQ(send("GET", "/metrics")->wait().status(), 200);
  open();
  EXPECT_EQ(send("GET", "/health")->wait().status(), 200);
  EXPECT_EQ(send("POST", "/v1/chat/completions", "{}")->wait().status(), 400);
}

TEST_F(Api, PathsMethodsAndModels) {
  open();
  EXPECT_EQ(send("GET", "/v1/nope")->wait().status(), 404);
  const auto wrong = send("GET", "/v1/chat/completions");
  EXPECT_EQ(wrong->wait().status(), 405);
  EXPECT_EQ(wrong->header("Allow"), "POST");
  EXPECT_EQ(send("GET", "/v1/models")->wait().json().at("data").at(0).at("id"), "toy");
  EXPECT_EQ(send("GET", "/v1/models/toy.gguf")->wait().json().at("id"), "toy");
  EXPECT_EQ(send("GET", "/v1/models/other")->wait().status(), 404);
  const auto other = send("POST", "/v1/completions", R"({"model":"other","prompt":"x"})");
  EXPECT_EQ(other->wait().status(), 404);
  EXPECT_EQ(other->json().at("error").at("code"), "model_not_found");
  EXPECT_EQ(
      send("POST", "/v1/embeddings", R"({"input":[]})")->wait().json().at("error").at("param"),
      "input");
  EXPECT_EQ(send("POST", "/v1/embeddings", R"({"input":"x"})")->wait().status(), 400);
}

TEST_F(Api, AWholeAnswerAndAStreamSayTheSame) {
  open();
  const auto whole = complete(R"("max_tokens":12,"n":2,"unknown":1)");
  ASSERT_EQ(whole->wait().status(), 200) << whole->body();
  EXPECT_EQ(whole->header("Ondol-Ignored"), "unknown");
  const auto answer = whole->json();
  EXPECT_EQ(answer.at("object"), "text_completion");
  EXPECT_EQ(answer.at("usage").at("prompt_tokens"), 3);
  EXPECT_EQ(answer.at("usage").at("completion_tokens"), 24);
  EXPECT_EQ(answer.at("choices").at(0).at("finish_reason"), "length");
  EXPECT_EQ(answer.at("choices").at(0).at("text"), answer.at("choices").at(1).at("text"));
  EXPECT_GT(answer.at("timings").at("decode_ms").to_number<double>(), 0);

  const auto stream = complete(R"("max_tokens":12,"stream":true,
                                  "stream_options":{"include_usage":true})");
  stream->wait();
  EXPECT_EQ(stream->header("Content-Type"), "text/event-stream; charset=utf-8");
  std::string joined;
  const auto events = stream->events();
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    joined += events[i].at("choices").at(0).at("text").as_string();
    EXPECT_TRUE(events[i].at("usage").is_null());
    EXPECT_EQ(events[i].at("choices").at(0).at("finish_reason").is_null(), i + 2 < events.size());
  }
  EXPECT_EQ(joined, answer.at("choices").at(0).at("text").as_string());
  EXPECT_TRUE(events.back().at("choices").as_array().empty());
  EXPECT_EQ(events.back().at("usage").at("completion_tokens"), 12);
}

TEST_F(Api, SeedsRepeatAndAnswersDiffer) {
  open();
  const std::string fields = R"("max_tokens":16,"seed":-7,"temperature":1.5,"n":2)";
  const auto body = R"({"prompt":[5,6,7],"ignore_eos":true,)" + fields + "}";
  const auto first = send("POST", "/v1/completions", body)->wait().json();
  const auto second = send("POST", "/v1/completions", body)->wait().json();
  EXPECT_EQ(first.at("choices"), second.at("choices"));
  EXPECT_NE(first.at("choices").at(0).at("text"), first.at("choices").at(1).at("text"));
}

TEST_F(Api, LogprobsComeWithTheirTokens) {
  open();
  const auto whole = complete(R"("max_tokens":6,"logprobs":3)")->wait().json();
  const auto& logprobs = whole.at("choices").at(0).at("logprobs");
  ASSERT_EQ(logprobs.at("tokens").as_array().size(), 6u);
  EXPECT_LE(logprobs.at("top_logprobs").at(0).as_object().size(), 3u);
  double best = -1e9;
  for (const auto& [token, value] : logprobs.at("top_logprobs").at(0).as_object())
    best = std::max(best, value.to_number<double>());
  EXPECT_EQ(logprobs.at("token_logprobs").at(0), best) << "greedy takes the most probable";
  size_t streamed = 0;
  for (const auto& event :
       complete(R"("max_tokens":6,"logprobs":3,"stream":true)")->wait().events())
    streamed += event.at("choices").at(0).at("logprobs").at("tokens").as_array().size();
  EXPECT_EQ(streamed, 6u);
}

TEST_F(Api, AStopTextEndsTheAnswer) {
  open();
  const auto whole = complete(R"("max_tokens":40)")->wait().json();
  const std::string text(whole.at("choices").at(0).at("text").as_string());
  // A letter of the answer, whole even where the tokens are not.
  size_t at = text.size() / 2;
  while (at < text.size() && (text[at] & 0xC0) == 0x80) ++at;
  size_t end = at + 1;
  while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
  const std::string stop = text.substr(at, end - at);
  const auto stopped =
      complete(R"("max_tokens":40,"stop":)" + json::serialize(json::string(stop)))->wait().json();
  EXPECT_EQ(stopped.at("choices").at(0).at("text"), json::value(text.substr(0, text.find(stop))));
  EXPECT_EQ(stopped.at("choices").at(0).at("finish_reason"), "stop");
}

TEST_F(Api, ContextLimits) {
  open(100);
  const auto ask = [&](int n_prompt, std::string_view more) {
    json::array prompt(static_cast<size_t>(n_prompt), 5);
    return send(
        "POST", "/v1/completions",
        R"({"ignore_eos":true,"prompt":)" + json::serialize(prompt) + std::string(more) + "}");
  };
  const auto long_one = ask(101, R"(,"stream":true)");
  EXPECT_EQ(long_one->wait().status(), 400);
  EXPECT_EQ(long_one->header("Content-Type"), "application/json");
  const auto error = long_one->json().at("error");
  EXPECT_EQ(error.at("code"), "context_length_exceeded");
  EXPECT_THAT(std::string(error.at("message").as_string()),
              testing::AllOf(HasSubstr("101"), HasSubstr("100")));
  EXPECT_EQ(ask(100, "")->wait().status(), 400);
  const auto last = ask(99, "")->wait().json();
  EXPECT_EQ(last.at("usage").at("completion_tokens"), 1);
  const auto rest = ask(60, R"(,"max_tokens":1000)")->wait().json();
  EXPECT_EQ(rest.at("usage").at("completion_tokens"), 40);
  EXPECT_EQ(rest.at("choices").at(0).at("finish_reason"), "length");
}

TEST_F(Api, AClientThatLeavesFreesItsPlace) {
  open(4096, 1, 1);
  const auto running = complete(R"("max_tokens":4000,"stream":true)");
  const auto waiting = complete(R"("max_tokens":4000)");
  running->wait_for_write();
  for (int i = 0; i < 5000 && service_->stats().queued < 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto refused = complete(R"("max_tokens":1)");
  EXPECT_EQ(refused->wait().status(), 429);
  EXPECT_FALSE(refused->header("Retry-After").empty());
  EXPECT_EQ(refused->json().at("error").at("type"), "rate_limit_error");
  running->leave();
  waiting->leave();
  for (int i = 0; i < 5000; ++i) {
    const auto stats = service_->stats();
    if (stats.queued + stats.running == 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(complete(R"("max_tokens":1)")->wait().status(), 200);
  EXPECT_THAT(send("GET", "/metrics")->wait().body(),
              HasSubstr("ondol_errors_total{kind=\"client_gone\"} 2"));
}

TEST_F(Api, AStopDuringAStreamIsToldInIt) {
  open(4096, 1);
  const auto stream = complete(R"("max_tokens":4000,"stream":true)");
  stream->wait_for_write();
  service_->stop(engine::Service::Stop::kCancel);
  EXPECT_THAT(stream->wait().body(), HasSubstr("\"error\""));
  EXPECT_TRUE(stream->body().ends_with("\n\n"));
}

TEST_F(Api, WhatWasReadBeforeIsCachedForItsOwnKey) {
  open();
  const json::array prompt(100, 5);
  const std::string body =
      R"({"max_tokens":2,"ignore_eos":true,"temperature":0,"prompt":)" + json::serialize(prompt);
  const auto cached = [&](std::string client, std::string_view more) {
    auto responder = std::make_shared<FakeResponder>();
    router_.handle({.method = "POST",
                    .path = "/v1/completions",
                    .body = body + std::string(more) + "}",
                    .client = std::move(client)},
                   responder);
    return responder->wait()
        .json()
        .at("usage")
        .at("prompt_tokens_details")
        .at("cached_tokens")
        .to_number<int>();
  };
  EXPECT_EQ(cached("alice", ""), 0);
  EXPECT_EQ(cached("alice", ""), 99);
  EXPECT_EQ(cached("bob", ""), 0) << "each key has its own";
  EXPECT_EQ(cached("alice", R"(,"cache_salt":"s")"), 0);
  EXPECT_EQ(cached("alice", R"(,"cache_salt":"s")"), 99);
  const auto text = send("GET", "/metrics")->wait().body();
  EXPECT_THAT(text, HasSubstr("ondol_cached_tokens_total{key=\"alice\"} 198\n"));
}

TEST_F(Api, TextAndTokens) {
  open();
  const auto tokens = send("POST", "/tokenize", R"({"content":"hello"})")->wait().json();
  EXPECT_EQ(tokens.at("count"), tokens.at("tokens").as_array().size());
  json::object back{{"tokens", tokens.at("tokens")}};
  EXPECT_EQ(send("POST", "/detokenize", json::serialize(back))->wait().json().at("content"),
            "hello");
  EXPECT_EQ(send("POST", "/detokenize", R"({"tokens":[-1]})")->wait().status(), 400);
  EXPECT_EQ(send("POST", "/tokenize", "{}")->wait().status(), 400);
}

TEST_F(Api, MetricsCount) {
  open();
  complete(R"("max_tokens":5)")->wait();
  const auto text = send("GET", "/metrics")->wait().body();
  EXPECT_THAT(text, HasSubstr("ondol_prompt_tokens_total{key=\"\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("ondol_completion_tokens_total{key=\"\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("ondol_requests_total{path=\"/v1/completions\",status=\"200\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("ondol_first_token_seconds_count 1\n"));
  EXPECT_THAT(text, HasSubstr("ondol_per_token_seconds_bucket{le=\"+Inf\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("ondol_ready 1\n"));
}

}  // namespace
}  // namespace ondol::serve
