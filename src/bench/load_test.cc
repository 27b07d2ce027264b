#include "bench/load.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <thread>

#include "bench/load_client.h"

namespace ondol::bench {
namespace {

/// An answer that stops in the middle.
const std::string kHangUp = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ndata: ";

/// A server of a few lines: one thread per connection, answers as it is told.
class TinyServer {
 public:
  /// Gets the head's first line and the body; gives the bytes to answer, head and all.
  using Answer = std::function<std::string(const std::string& line, const std::string& body)>;

  explicit TinyServer(Answer answer) : answer_(std::move(answer)) {
    fd_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(fd_, plain, size), 0);
    EXPECT_EQ(listen(fd_, 128), 0);
    EXPECT_EQ(getsockname(fd_, plain, &size), 0);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~TinyServer() {
    shutdown(fd_, SHUT_RDWR);
    acceptor_.join();
    for (const int fd : open_) shutdown(fd, SHUT_RDWR);
    for (auto& thread : threads_) thread.join();
    for (const int fd : open_) close(fd);
    close(fd_);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int most_at_once() const { return most_; }
  std::vector<std::string> bodies() {
    const std::lock_guard lock(mutex_);
    return bodies_;
  }

 private:
  void accept_all() {
    for (int fd = 0; (fd = accept(fd_, nullptr, nullptr)) >= 0;) {
      open_.push_back(fd);
      threads_.emplace_back([this, fd] { serve(fd); });
    }
  }
  void serve(int fd) {
    std::string in;
    char buffer[65536];
    while (true) {
      const size_t head = in.find("\r\n\r\n");
      const size_t length = head == std::string::npos ? 0 : body_size(in.substr(0, head));
      if (head == std::string::npos || in.size() < head + 4 + length) {
        const ssize_t n = read(fd, buffer, sizeof buffer);
        if (n <= 0) return;
        in.append(buffer, static_cast<size_t>(n));
        continue;
      }
      const std::string body = in.substr(head + 4, length), line = in.substr(0, in.find('\r'));
      in.erase(0, head + 4 + length);
      {
        const std::lock_guard lock(mutex_);
        if (!body.empty()) bodies_.push_back(body);
        most_ = std::max<int>(most_, ++busy_);
      }
      const std::string out = answer_(line, body);
      --busy_;
      const ssize_t sent = send(fd, out.data(), out.size(), MSG_NOSIGNAL);
      if (sent < 0 || out == kHangUp) {
        shutdown(fd, SHUT_RDWR);
        return;
      }
    }
  }
  static size_t body_size(std::string head) {
    std::ranges::transform(head, head.begin(), [](unsigned char c) { return std::tolower(c); });
    const size_t at = head.find("content-length: ");
    return at == std::string::npos ? 0 : std::stoul(head.substr(at + 16));
  }

  const Answer answer_;
  int fd_ = -1;
  int port_ = 0;
  std::mutex mutex_;
  std::vector<std::string> bodies_;
  std::atomic<int> busy_ = 0, most_ = 0;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

std::string http(int status, std::string_view body, std::string_view type = "application/json") {
  return "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Type: " + std::string(type) +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

/// A stream of two texts; a word of the prompt is a token, and the template adds ten.
std::string stream_for(const std::string& body, int cached = 0) {
  const auto value = boost::json::parse(body);
  const std::string text = prefix_text(value.as_object());
  const auto prompt = std::ranges::count(text, ' ') + 10;
  boost::json::object usage{{"prompt_tokens", prompt},
                            {"completion_tokens", 2},
                            {"prompt_tokens_details", {{"cached_tokens", cached}}}};
  const boost::json::object last{{"choices", boost::json::array()}, {"usage", usage}};
  return http(200,
              "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: {\"choices\":[{\"text\":\"b\"}]}\n\n"
              "data: " +
                  boost::json::serialize(last) + "\n\ndata: [DONE]\n\n",
              "text/event-stream");
}

std::string models_or(const std::string& line, const std::function<std::string()>& other) {
  if (line.starts_with("GET /v1/models ")) return http(200, "{\"data\":[{\"id\":\"the-model\"}]}");
  return other();
}

Result<LoadReport> load(LoadOptions options) {
  return run_load(Env::real(), std::move(options), [](int) {}, [] { return false; });
}

TEST(Load, AClosedLoopKeepsItsClientsBusyAndNoMore) {
  TinyServer server([](const auto& line, const auto& body) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return models_or(line, [&] { return stream_for(body, 40); });
  });
  const LoadOptions options{
      .url = server.url() + "/v1/",
      .work = {.kind = "completions", .prompt_tokens = 200, .shared_prefix = 100},
      .clients = 4,
      .requests = 40};
  const auto report = load(options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->samples.size(), 40u);
  EXPECT_EQ(report->n_sent, 40);
  EXPECT_EQ(server.most_at_once(), 4);
  EXPECT_EQ(report->most_at_once, 4);
  EXPECT_EQ(report->model, "the-model");
  EXPECT_NEAR(report->rate.tokens_per_word, 1, 0.01);
  EXPECT_EQ(report->completion_tokens(), 80);
  EXPECT_EQ(report->cached_tokens(), 1600);
  for (const auto& sample : report->samples) {
    EXPECT_NEAR(sample.prompt, 200, 3);
    EXPECT_GE(sample.ttft_s, 0.004);
  }
  // All but the first could have had half of their tokens from before.
  EXPECT_NEAR(report->possible_tokens() / static_cast<double>(report->prompt_tokens()), 0.48, 0.03);
  const auto body = boost::json::parse(server.bodies().back());
  EXPECT_EQ(body.at("model"), "the-model");
  EXPECT_EQ(body.at("stream"), true);
  EXPECT_EQ(body.at("stream_options").at("include_usage"), true);
}

TEST(Load, AnOpenLoopWaitsForNobody) {
  TinyServer server([](const auto& line, const auto& body) {
    return models_or(line, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      return stream_for(body);
    });
  });
  const auto report = load({.url = server.url(), .rate = 200, .requests = 20});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->samples.size(), 20u);
  EXPECT_GT(server.most_at_once(), 10) << "one by one they would be 6 s under way";
}

TEST(Load, ErrorsAreCountedByKind) {
  std::atomic<int> n = 0;
  TinyServer server([&](const auto& line, const auto& body) {
    return models_or(line, [&]() -> std::string {
      switch (n++) {
        case 2:
          return http(429, "{\"error\":{\"message\":\"the queue is full\"}}");
        case 3:
          return kHangUp;
        case 4:
          return http(200, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n", "text/event-stream");
        case 5:
          return http(200, "data: {\"error\":{\"message\":\"broke\"}}\n\n", "text/event-stream");
        case 6:
          return http(200, "data: [DONE]\n\n", "text/event-stream");
        default:
          return stream_for(body);
      }
    });
  });
  const LoadOptions options{.url = server.url(), .requests = 6};
  const auto report = load(options);
  ASSERT_TRUE(report) << report.error().message;
  const std::map<std::string, int> expected = {
      {"http_429", 1}, {"broken", 1}, {"incomplete", 1}, {"stream_error", 1}, {"empty", 1}};
  EXPECT_EQ(report->errors, expected);
  EXPECT_EQ(report->told.at("http_429"), "the queue is full");
  EXPECT_EQ(report->told.at("stream_error"), "broke");
  EXPECT_EQ(report->samples.size(), 1u);
  EXPECT_EQ(to_json(*report, options).at("errors").at("http_429"), 1);
}

TEST(Load, ASlowAnswerTimesOut) {
  TinyServer server([](const auto& line, const auto& body) {
    if (body.find("counted") == std::string::npos && !body.empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
    return models_or(line, [&] { return stream_for(body); });
  });
  const auto report = load({.url = server.url(), .requests = 1, .timeout_s = 0.2});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->errors, (std::map<std::string, int>{{"timeout", 1}}));
}

TEST(Load, ARecordingKeepsItsTimesAndEndsWhereItIsBroken) {
  TinyServer server([](const auto& line, const auto& body) {
    return models_or(line, [&] { return stream_for(body); });
  });
  const std::string path = ::testing::TempDir() + "recording.jsonl";
  const auto line = [](double t) {
    return "{\"t\":" + std::to_string(t) +
           ",\"path\":\"/v1/completions\",\"body\":{\"prompt\":\"x\"}}\n";
  };
  std::ofstream(path) << line(0) << line(0.2) << line(0.4);
  const auto report = load({.url = server.url(), .work = {.kind = path}});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->samples.size(), 3u);
  EXPECT_GE(report->seconds, 0.4);
  const auto fast = load({.url = server.url(), .work = {.kind = path}, .clients = 2});
  ASSERT_TRUE(fast);
  EXPECT_LT(fast->seconds, 0.4) << "clients do not keep the times";
  std::ofstream(path, std::ios::app) << "{\"t\":0.45,broken\n" << line(0.5);
  const auto broken = load({.url = server.url(), .work = {.kind = path}});
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message.find("line 4"), std::string::npos);
  std::remove(path.c_str());
}

TEST(Load, WhatCannotBeLoadedIsSaid) {
  EXPECT_EQ(load({.url = "localhost:8080"}).error().kind, ErrorKind::kUsage);
  const auto nobody = load({.url = "http://127.0.0.1:1"});
  ASSERT_FALSE(nobody);
  EXPECT_NE(nobody.error().message.find("cannot be reached"), std::string::npos);
  TinyServer locked([](const auto&, const auto&) { return http(401, "{}"); });
  const auto refused = load({.url = locked.url()});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("--api-key"), std::string::npos);
  TinyServer busy([](const auto&, const auto&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return http(200, "{}");
  });
  const auto stopped = run_load(Env::real(), {.url = busy.url()}, [](int) {}, [] { return true; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().kind, ErrorKind::kInterrupted);
}

TEST(Load, TheRootOfAnAddress) {
  EXPECT_EQ(*server_root("http://h:8080"), "http://h:8080");
  EXPECT_EQ(*server_root("https://h/api/v1/"), "https://h/api");
  EXPECT_FALSE(server_root("file:///etc/passwd"));
  EXPECT_FALSE(server_root("http://"));
}

TEST(Load, PercentilesAreByNearestRank) {
  std::vector<double> values;
  for (int i = 200; i >= 1; --i) values.push_back(i);
  const auto of = percentiles(values);
  EXPECT_EQ(of.p50, 100);
  EXPECT_EQ(of.p95, 190);
  EXPECT_EQ(of.p99, 198);
  EXPECT_EQ(percentiles({7}).p99, 7);
  EXPECT_EQ(percentiles({}).p50, 0);
}

TEST(Load, GoodputCountsWhatWasInTime) {
  LoadReport report;
  report.seconds = 2;
  report.model = "a<b";
  report.samples = {{.ttft_s = 0.1, .tpot_s = 0.01},
                    {.ttft_s = 0.3, .tpot_s = 0.01},
                    {.ttft_s = 0.1, .tpot_s = 0.05},
                    {.ttft_s = 0.1}};
  EXPECT_EQ(report.goodput({}), 2);
  EXPECT_EQ(report.goodput({.ttft_limit_s = 0.2}), 1.5);
  EXPECT_EQ(report.goodput({.ttft_limit_s = 0.2, .tpot_limit_s = 0.02}), 1);
  const auto json = to_json(report, {});
  EXPECT_TRUE(json.at("hit_rate").is_null()) << "what the server does not say is not zero";
  EXPECT_NEAR(json.at("tpot_ms").at("p95").as_double(), 50, 1e-9);
  const std::string svg = to_svg(report);
  EXPECT_NE(svg.find("a&#60;b"), std::string::npos);
  EXPECT_NE(svg.find("p95: 300.0 ms"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_NE(to_svg({}).find("nothing measured"), std::string::npos);
}

}  // namespace
}  // namespace ondol::bench
