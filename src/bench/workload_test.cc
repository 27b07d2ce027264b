#include "bench/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <fstream>

namespace ondol::bench {
namespace {

std::unique_ptr<Workload> make(const WorkloadOptions& options) {
  auto made = Workload::make(Env::real(), options);
  EXPECT_TRUE(made) << made.error().message;
  return std::move(*made);
}

Turn next(Workload& work) {
  auto turn = work.next();
  EXPECT_TRUE(turn) << turn.error().message;
  EXPECT_TRUE(*turn);
  return std::move(**turn);
}

std::string text_of(const Turn& turn) { return boost::json::serialize(turn.body); }

int words_in(std::string_view text) { return static_cast<int>(std::ranges::count(text, ' ')); }

TEST(Workload, SeedsDecide) {
  for (const char* kind : {"chat", "completions", "agent"}) {
    const auto one = make({.kind = kind, .seed = 3}), same = make({.kind = kind, .seed = 3}),
               other = make({.kind = kind, .seed = 4});
    for (int i = 0; i < 5; ++i) {
      const std::string text = text_of(next(*one));
      EXPECT_EQ(text, text_of(next(*same)));
      EXPECT_NE(text, text_of(next(*other)));
    }
  }
}

TEST(Workload, PromptsHaveTheWordsThatMakeTheirTokens) {
  const auto work = make({.kind = "completions",
                          .prompt_tokens = 300,
                          .shared_prefix = 100,
                          .rate = {.tokens_per_word = 2, .extra_tokens = 20}});
  const std::string a(next(*work).body.at("prompt").as_string());
  const std::string b(next(*work).body.at("prompt").as_string());
  EXPECT_EQ(words_in(a), 50 + 1 + 90);
  EXPECT_NE(a, b);
  // The shared part is the same, and a number tells the rest apart at once.
  const size_t same = std::ranges::mismatch(a, b).in1 - a.begin();
  EXPECT_EQ(words_in(a.substr(0, same)), 51);
}

TEST(Workload, ChatShareIsTheSystemMessage) {
  const auto work = make({.kind = "chat", .shared_prefix = 26});
  const auto a = next(*work).body.at("messages"), b = next(*work).body.at("messages");
  EXPECT_EQ(a.at(0), b.at(0));
  EXPECT_EQ(a.at(0).at("role"), "system");
  EXPECT_EQ(words_in(std::string(a.at(0).at("content").as_string())), 20);
  EXPECT_NE(a.at(1), b.at(1));
}

TEST(Workload, AnAgentsHistoryGrowsAndBeginsAsBefore) {
  const auto work = make({.kind = "agent", .prompt_tokens = 20, .shared_prefix = 400, .turns = 3});
  const Turn first = next(*work), second = next(*work);
  EXPECT_NE(first.session, second.session) << "nobody waits for another's answer";
  EXPECT_EQ(first.body.at("messages").at(0), second.body.at("messages").at(0));
  work->answered(second.session, "unused");
  const Turn more = next(*work);
  EXPECT_EQ(more.session, second.session);
  EXPECT_TRUE(more.prefix_text.starts_with(second.prefix_text));
  EXPECT_EQ(more.body.at("messages").as_array().size(), 4u);
  EXPECT_EQ(text_of(more).find("unused"), std::string::npos);
  work->answered(more.session, "");
  work->answered(next(*work).session, "");  // the third turn is the last
  EXPECT_NE(next(*work).session, second.session);
}

TEST(Workload, AnAgentMayKeepWhatTheServerSaid) {
  const auto work = make({.kind = "agent", .keep_answers = true});
  work->answered(next(*work).session, "just so");
  EXPECT_EQ(next(*work).body.at("messages").at(2).at("content"), "just so");
}

class ReplayTest : public ::testing::Test {
 protected:
  std::unique_ptr<Workload> replay(const std::string& text) {
    std::ofstream(path_) << text;
    return make({.kind = path_});
  }
  ~ReplayTest() override { std::remove(path_.c_str()); }
  const std::string path_ = ::testing::TempDir() + "replay_" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(ReplayTest, ReadsRecordsBatchesAndBodies) {
  const auto work = replay(
      "{\"t\":1.5,\"path\":\"/v1/"
      "completions\",\"body\":{\"model\":\"m\",\"prompt\":[1,2]},\"status\":200}\n"
      "{\"t\":2,\"path\":\"/tokenize\",\"body\":{\"content\":\"x\"}}\n\n"
      "{\"t\":2,\"path\":\"/v1/chat/completions\",\"body\":\"{broken\"}\n"
      "{\"custom_id\":\"1\",\"method\":\"POST\",\"url\":\"/v1/chat/"
      "completions\",\"body\":{\"messages\":[]}}\r\n"
      "{\"prompt\":\"hi\"}");
  EXPECT_FALSE(work->is_timed()) << "not every line has a time";
  const Turn recorded = next(*work);
  EXPECT_EQ(recorded.path, "/v1/completions");
  EXPECT_EQ(text_of(recorded), "{\"prompt\":[1,2]}");
  EXPECT_EQ(recorded.prefix_text, std::string("\1\0\0\0\2\0\0\0", 8));
  EXPECT_EQ(next(*work).path, "/v1/chat/completions");
  const Turn plain = next(*work);
  EXPECT_EQ(plain.path, "/v1/completions");
  EXPECT_FALSE(plain.at_s);
  EXPECT_FALSE(*work->next());
}

TEST_F(ReplayTest, ARecordingComesInTheOrderOfItsTimes) {
  const auto line = [](const char* t, const char* prompt) {
    return std::string("{\"t\":") + t + ",\"path\":\"/v1/completions\",\"body\":{\"prompt\":\"" +
           prompt + "\"},\"status\":200}\n";
  };
  const auto work = replay(line("0.500000", "b") + line("0.250000", "a, which took long") +
                           line("12.500000", "c") + "{\"t\":13,\"path\":\"/v1/comp");
  EXPECT_TRUE(work->is_timed());
  for (const double t : {0.25, 0.5, 12.5}) EXPECT_EQ(next(*work).at_s, t);
  const auto cut = work->next();
  ASSERT_TRUE(cut) << "a last line that was cut off is none";
  EXPECT_FALSE(*cut);
}

TEST_F(ReplayTest, ABrokenLineIsNamed) {
  const auto work = replay("{\"prompt\":\"hi\"}\n{\"prompt\":\n");
  EXPECT_FALSE(work->is_timed());
  next(*work);
  const auto broken = work->next();
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().kind, ErrorKind::kRefused);
  EXPECT_NE(broken.error().message.find("line 2"), std::string::npos);
}

TEST(Workload, AFileThatIsNotThere) {
  const auto work = Workload::make(Env::real(), {.kind = "/nowhere/chats"});
  ASSERT_FALSE(work);
  EXPECT_EQ(work.error().kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace ondol::bench
