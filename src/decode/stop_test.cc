#include "decode/stop.h"

#include <gtest/gtest.h>

#include <random>

#include "support/support.h"

namespace ondol::decode {
namespace {

namespace json = boost::json;

std::vector<std::string> strings(const json::value& array) {
  return json::value_to<std::vector<std::string>>(array);
}

void check_case(const json::object& one) {
  const auto& input = one.at("input").as_object();
  const auto& expected = one.at("expected").as_object();
  const auto stops = strings(input.at("stop"));
  auto matcher = StopMatcher::make(stops);
  if (!matcher) {
    EXPECT_TRUE(expected.contains("also_fine")) << matcher.error().message;
    return;
  }
  const auto after = strings(expected.at("emitted_after_each_piece"));
  std::string text;
  size_t used = 0;
  for (const auto& piece : strings(input.at("pieces"))) {
    text += matcher->push(piece);
    ASSERT_LT(used, after.size());
    EXPECT_EQ(text, after[used]) << "after piece " << used;
    ++used;
    if (matcher->stopped()) break;
  }
  text += matcher->finish();
  EXPECT_EQ(text, expected.at("text").as_string());
  EXPECT_EQ(used, expected.at("pieces_used").to_number<size_t>());
  EXPECT_EQ(matcher->stopped(), input.at("end").as_string() == "stop_match");
  const bool stop = matcher->stopped() || input.at("end").as_string() == "end_token";
  EXPECT_EQ(stop ? "stop" : "length", expected.at("finish_reason").as_string());
}

TEST(StopMatcherTest, SharedCases) {
  const std::string path = test::shared_path("cases/stop_strings.jsonl");
  if (path.empty()) GTEST_SKIP() << test::kNoShared;
  const auto cases = test::read_json_lines(path);
  EXPECT_GE(cases.size(), 25u);
  for (const auto& one : cases) {
    SCOPED_TRACE(std::string(one.at("id").as_string()));
    check_case(one);
  }
}

TEST(StopMatcherTest, LimitsAreUsageErrors) {
  for (const auto& stops : {std::vector<std::string>{"a", ""}, std::vector<std::string>(65, "a"),
                            std::vector<std::string>{std::string(1025, 'a')}}) {
    const auto matcher = StopMatcher::make(stops);
    ASSERT_FALSE(matcher);
    EXPECT_EQ(matcher.error().kind, ErrorKind::kUsage);
  }
  EXPECT_TRUE(StopMatcher::make(std::vector<std::string>(64, std::string(1024, 'a'))));
}

TEST(StopMatcherTest, NothingComesAfterAMatch) {
  auto matcher = StopMatcher::make({"cd", "bcd"});
  ASSERT_TRUE(matcher);
  EXPECT_EQ(matcher->push("ab"), "a");
  EXPECT_EQ(matcher->push("cdef"), "");  // the longer of the two that end here
  EXPECT_EQ(matcher->matched(), "bcd");
  EXPECT_EQ(matcher->push("more"), "");
  EXPECT_EQ(matcher->finish(), "");
}

/// The same by trying every end position of the whole text.
std::string naive(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const auto& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(StopMatcherTest, AgreesWithExhaustiveSearchHoweverTheTextIsCut) {
  std::mt19937 random(1);
  const auto word = [&](size_t longest) {
    std::string out(1 + random() % longest, 'a');
    for (char& c : out) c = static_cast<char>('a' + random() % 2);
    return out;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops(1 + random() % 3);
    for (auto& stop : stops) stop = word(8);
    const std::string text = word(30);
    auto matcher = StopMatcher::make(stops);
    ASSERT_TRUE(matcher);
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t n = 1 + random() % 5;
      out += matcher->push(std::string_view(text).substr(at, n));
      at += n;
      // Nothing is held that no stop text starts with.
      const std::string sofar = text.substr(0, std::min(at, text.size()));
      if (!matcher->stopped() && out.size() < sofar.size()) {
        const std::string held = sofar.substr(out.size());
        EXPECT_TRUE(
            std::ranges::any_of(stops, [&](const auto& stop) { return stop.starts_with(held); }));
      }
    }
    out += matcher->finish();
    ASSERT_EQ(out, naive(text, stops)) << text;
  }
}

}  // namespace
}  // namespace ondol::decode
