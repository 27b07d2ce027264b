#include "bench/streamed_answer.h"

#include <gtest/gtest.h>

#include <vector>

namespace ondol::bench {
namespace {

using std::chrono::milliseconds;

std::vector<std::string> events_of(std::string_view bytes, size_t cut) {
  std::vector<std::string> events;
  SseReader reader([&](std::string_view data) { events.emplace_back(data); });
  for (size_t at = 0; at < bytes.size(); at += cut) EXPECT_TRUE(reader.push(bytes.substr(at, cut)));
  return events;
}

TEST(SseReader, LinesHoweverTheyAreCutAndEnded) {
  const std::string_view stream =
      ": hello\n\ndata: one\n\nevent: x\ndata:two\r\ndata:  2\r\n\r\nid: 7\n\ndata\rdata: "
      "b\r\rdata: cut";
  for (size_t cut = 1; cut < 20; ++cut) {
    EXPECT_EQ(events_of(stream, cut), (std::vector<std::string>{"one", "two\n 2", "\nb"})) << cut;
  }
}

TEST(SseReader, AnEventThatNeverEndsIsGivenUp) {
  SseReader reader([](std::string_view) { FAIL(); });
  EXPECT_TRUE(reader.push("data: "));
  const std::string part(SseReader::kMaxEvent / 2, 'a');
  EXPECT_TRUE(reader.push(part));
  EXPECT_FALSE(reader.push(part + "\n\n"));
  EXPECT_FALSE(reader.push("data: x\n\n"));
}

TEST(StreamedAnswer, TimesAndCounts) {
  StreamedAnswer answer(true);
  const Clock::time_point start{};
  const auto at = [&](int ms, std::string_view bytes) {
    EXPECT_TRUE(answer.push(bytes, start + milliseconds(ms)));
  };
  at(5, R"(data: {"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]})");
  at(6, "\n\n");
  EXPECT_FALSE(answer.first) << "a role is no text";
  at(10, "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}],\"usage\":null}\n\n");
  at(40, "data: {\"choices\":[{\"delta\":{\"content\":\"lo\"}}]}\n\n");
  at(70, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n");
  at(80,
     "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,"
     "\"prompt_tokens_details\":{\"cached_tokens\":8}}}\n\ndata: [DONE]\n\n");
  EXPECT_EQ(answer.first, start + milliseconds(10));
  EXPECT_EQ(answer.text, "Hello");
  EXPECT_EQ(answer.finish, "stop");
  EXPECT_TRUE(answer.done);
  EXPECT_EQ(answer.n_tokens(), 4);
  EXPECT_EQ(answer.prompt, 9);
  EXPECT_EQ(answer.cached, 8);
  EXPECT_DOUBLE_EQ(*answer.seconds_per_token(), 0.010);
  EXPECT_DOUBLE_EQ(answer.longest_pause, 0.030);
  EXPECT_EQ(answer.error, "");
}

TEST(StreamedAnswer, WhatOthersSayOfTheirCache) {
  StreamedAnswer named(false), counted(false), silent(false);
  named.push("data: {\"choices\":[],\"timings\":{\"cache_n\":7,\"prompt_n\":2}}\n\n", {});
  EXPECT_EQ(named.cached, 7);
  counted.push(
      "data: {\"choices\":[{\"text\":\"x\"}],\"usage\":{\"prompt_tokens\":9},\"timings\":{"
      "\"prompt_n\":2}}\n\n",
      {});
  EXPECT_EQ(counted.cached, 7);
  EXPECT_EQ(counted.n_tokens(), 1) << "without a count, events";
  silent.push("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9}}\n\n", {});
  EXPECT_FALSE(silent.cached);
}

TEST(StreamedAnswer, WhatIsWrong) {
  StreamedAnswer failed(false), broken(false), plain(false);
  failed.push("data: {\"error\":{\"message\":\"no memory\"}}\n\n", {});
  EXPECT_EQ(failed.error, "no memory");
  broken.push("data: {\"choices\"\n\n", {});
  EXPECT_NE(broken.error, "");
  plain.push("{\"error\": \"no stream\"}", {});
  EXPECT_EQ(plain.plain, "{\"error\": \"no stream\"}");
  EXPECT_EQ(plain.error, "");
}

TEST(StreamedAnswer, HostileEventsAreNoText) {
  StreamedAnswer answer(true);
  for (const char* event :
       {"[]", "7", "{\"choices\":7}", "{\"choices\":[7]}", "{\"choices\":[{\"delta\":7}]}",
        "{\"choices\":[{\"delta\":{\"content\":7}}]}", "{\"usage\":{\"prompt_tokens\":1e99}}",
        "{\"usage\":{\"prompt_tokens\":\"7\"}}", "{\"timings\":[]}"}) {
    EXPECT_TRUE(answer.push("data: " + std::string(event) + "\n\n", {}));
  }
  EXPECT_FALSE(answer.first);
  EXPECT_FALSE(answer.prompt);
  EXPECT_EQ(answer.text, "");
}

}  // namespace
}  // namespace ondol::bench
