#include "serve/openai_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/openai_shapes.h"
#include "serve/sse.h"
#include "support/support.h"

namespace ondol::serve {
namespace {

namespace json = boost::json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kVocab = 1000;

ApiResult<ChatRequest> chat(std::string_view body) {
  const auto object = parse_body(body);
  if (!object) return std::unexpected(object.error());
  return parse_chat(*object, kVocab, "{{ messages }}");
}

/// A request with these fields besides a message.
std::string with(std::string_view fields) {
  return R"({"messages":[{"role":"user","content":"x"}],)" + std::string(fields) + "}";
}

struct Mistake {
  std::string body;
  std::string param;
  std::string says = {};
};

TEST(OpenAiRequest, MistakesNameTheirField) {
  const Mistake mistakes[] = {
      {"", "", "no JSON"},
      {"[]", "", "a list"},
      {"null", "", "null"},
      {"{} x", "", "goes on"},
      {"{\"a\":1,/**/\"b\":2}", "", "no JSON"},
      {with(R"("temperature":NaN)"), "", "no JSON"},
      {with(R"("n":1,"n":2)"), "n", "twice"},
      {"{\"a\":\"\xFF\"}", "", "byte 6"},
      {std::string(100000, '['), "", "deep"},
      {R"({"messages":[{"role":"user","content":"\ud83d b"}]})", "", "no JSON"},
      {"{}", "messages", "missing"},
      {R"({"messages":[]})", "messages", "empty"},
      {R"({"messages":{}})", "messages", "an object"},
      {R"({"messages":[5]})", "messages[0]", "a number"},
      {R"({"messages":[{"content":"x"}]})", "messages[0].role"},
      {R"({"messages":[{"role":"robot","content":"x"}]})", "messages[0].role", "robot"},
      {R"({"messages":[{"role":"user"}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":5}]})", "messages[0].content"},
      {R"({"messages":[{"role":"user","content":[]}]})", "messages[0].content", "empty"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]})",
       "messages[0].content", "image_url"},
      {R"({"messages":[{"role":"assistant","content":null}]})", "messages[0].content"},
      {with(R"("stream":"true")"), "stream", "a text"},
      {with(R"("stream_options":{"include_usage":true})"), "stream_options"},
      {with(R"("temperature":"hot")"), "temperature"},
      {with(R"("temperature":-1)"), "temperature"},
      {with(R"("top_p":2)"), "top_p", "from 0 to 1"},
      {with(R"("max_tokens":1.5)"), "max_tokens", "1.5"},
      {with(R"("max_tokens":0)"), "max_tokens"},
      {with(R"("max_tokens":-5)"), "max_tokens", "-5"},
      {with(R"("max_tokens":1e400)"), ""},
      {with(R"("max_tokens":99999999999999999999)"), "max_tokens"},
      {with(R"("max_completion_tokens":true)"), "max_completion_tokens"},
      {with(R"("n":0)"), "n"},
      {with(R"("frequency_penalty":5)"), "frequency_penalty"},
      {with(R"("seed":"7")"), "seed"},
      {with(R"("logit_bias":[1])"), "logit_bias"},
      {with(R"("logit_bias":{"1000":1})"), "logit_bias", "999"},
      {with(R"("logit_bias":{"-1":1})"), "logit_bias"},
      {with(R"("logit_bias":{"abc":1})"), "logit_bias"},
      {with(R"("logit_bias":{"5":1e9})"), "logit_bias"},
      {with(R"("stop":5)"), "stop"},
      {with(R"("stop":["a",5])"), "stop"},
      {with(R"("stop":"")"), "stop"},
      {with(R"("top_logprobs":3)"), "top_logprobs"},
      {with(R"("logprobs":true,"top_logprobs":21)"), "top_logprobs"},
      {with(R"("response_format":{"type":"xml"})"), "response_format"},
      {with(R"("response_format":{"type":"json_schema"})"), "response_format"},
      {with(R"("modalities":["audio"])"), "modalities"},
      {with(R"("functions":[{"name":"f"}])"), "functions"},
      {with(R"("store":true)"), "store"},
      {with(R"("reasoning_effort":"high")"), "reasoning_effort"},
      {with(R"("chat_template_kwargs":{"bos_token":"x"})"), "chat_template_kwargs"},
      {with(R"("tool_choice":"required")"), "tool_choice"},
      {with(R"("tools":[{"type":"function","function":{"name":"a b"}}])"), "tools[0]"},
      {with(R"("tools":[{"type":"function","function":{"name":"a"}}])"), "tools", "not supported"},
      {with(R"("tools":[{"type":"function","function":{"name":"a"}},)"
            R"({"type":"function","function":{"name":"a"}}],"tool_choice":"none")"),
       "tools[1]", "two functions"},
      {with(R"("tools":[{"type":"function","function":{"name":"a"}}],)"
            R"("tool_choice":{"type":"function","function":{"name":"nope"}})"),
       "tool_choice", "nope"},
  };
  for (const Mistake& mistake : mistakes) {
    const auto read = chat(mistake.body);
    const std::string shown = mistake.body.substr(0, 120);
    ASSERT_FALSE(read) << shown;
    EXPECT_EQ(read.error().status, 400) << shown;
    EXPECT_THAT(read.error().param, testing::StartsWith(mistake.param)) << shown;
    EXPECT_THAT(read.error().message, HasSubstr(mistake.says)) << shown;
    EXPECT_FALSE(read.error().message.empty());
  }
}

TEST(OpenAiRequest, EveryFieldArrives) {
  const auto read = chat(with(
      R"("model":"m","temperature":0.5,"top_p":0.9,"top_k":7,"min_p":0.1,"seed":-1,
         "presence_penalty":1,"frequency_penalty":-1,"logit_bias":{"5":-100},"stop":["a","b"],
         "max_tokens":9,"max_completion_tokens":3,"n":2,"stream":true,
         "stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":4,
         "user":"me","store":false,"metadata":{"a":"b"},"echo":false,"new_one":1,"null_one":null)"));
  ASSERT_TRUE(read) << read.error().message;
  const AnswerSettings& settings = read->settings;
  EXPECT_EQ(settings.model, "m");
  EXPECT_EQ(settings.sampling.temperature, 0.5);
  EXPECT_EQ(settings.sampling.top_p, 0.9);
  EXPECT_EQ(settings.sampling.top_k, 7);
  EXPECT_EQ(settings.sampling.min_p, 0.1);
  EXPECT_EQ(settings.sampling.seed, ~uint64_t{0});
  EXPECT_EQ(settings.sampling.presence_penalty, 1);
  EXPECT_EQ(settings.sampling.frequency_penalty, -1);
  EXPECT_EQ(settings.sampling.logit_bias.at(5), -100);
  EXPECT_EQ(settings.sampling.n_logprobs, 4);
  EXPECT_THAT(settings.stops, ElementsAre("a", "b"));
  EXPECT_EQ(settings.max_tokens, 3) << "the newer name wins";
  EXPECT_EQ(settings.n, 2);
  EXPECT_TRUE(settings.stream && settings.include_usage && settings.logprobs);
  EXPECT_THAT(settings.ignored, ElementsAre("new_one"));
}

TEST(OpenAiRequest, MessagesBecomeWhatTemplatesKnow) {
  const auto read = chat(R"({"messages":[
      {"role":"developer","content":"be brief"},
      {"role":"user","content":[{"type":"text","text":"Say "},{"type":"text","text":"hi."}]},
      {"role":"assistant","content":null,"tool_calls":[
        {"id":"c","type":"function","function":{"name":"add","arguments":"{\"a\":2}"}}]},
      {"role":"tool","tool_call_id":"c","content":"a\u0000b"}]})");
  ASSERT_TRUE(read) << read.error().message;
  const auto& messages = read->conversation.at("messages").as_array();
  EXPECT_EQ(messages[0].at("role"), "system");
  EXPECT_EQ(messages[1].at("content"), "Say hi.");
  EXPECT_EQ(messages[2].at("content"), "");
  const auto& function = messages[2].at("tool_calls").at(0).at("function");
  EXPECT_EQ(function.at("arguments").at("a"), 2);
  EXPECT_EQ(messages[3].at("content").as_string().size(), 3u);
}

TEST(OpenAiRequest, CompletionPrompts) {
  const auto read = [](std::string_view prompt) {
    return parse_completion(*parse_body(R"({"prompt":)" + std::string(prompt) + "}"), kVocab);
  };
  EXPECT_EQ(std::get<std::string>(read(R"("a")")->prompts.at(0)), "a");
  EXPECT_EQ(read(R"(["a","b"])")->prompts.size(), 2u);
  EXPECT_THAT(std::get<TokenIds>(read("[1,2,3]")->prompts.at(0)), ElementsAre(1, 2, 3));
  EXPECT_THAT(std::get<TokenIds>(read("[[1],[2,3.0]]")->prompts.at(1)), ElementsAre(2, 3));
  for (const char* wrong : {"[]", "null", "{}", "[1,\"a\"]", "[-1]", "[1000]", "[1.5]", "[true]",
                            "[[1],5]", "[1e300]"}) {
    const auto refused = read(wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().param, "prompt") << wrong;
  }
  const auto best = parse_completion(*parse_body(R"({"prompt":"a","best_of":3})"), kVocab);
  ASSERT_FALSE(best);
  EXPECT_EQ(best.error().param, "best_of");
  const auto echo = parse_completion(*parse_body(R"({"prompt":"a","echo":true})"), kVocab);
  ASSERT_FALSE(echo);
  EXPECT_EQ(echo.error().param, "echo");
}

TEST(Sse, DeltasStayOneDataLine) {
  const std::string path = test::shared_path("cases/sse_framing.jsonl");
  if (path.empty()) GTEST_SKIP() << test::kNoShared;
  int n = 0;
  for (const auto& test_case : test::read_json_lines(path)) {
    const auto& input = test_case.at("input").as_object();
    const auto* delta = input.if_contains("delta");
    if (delta == nullptr) continue;
    ++n;
    const std::string text(delta->as_string());
    const std::string event =
        sse_event(chunk({.id = "x", .model = "m"}, {.text = text, .first = true}, false));
    ASSERT_TRUE(event.starts_with("data: ") && event.ends_with("\n\n")) << test_case.at("id");
    const std::string line = event.substr(6, event.size() - 8);
    for (const char* end : {"\n", "\r", "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"})
      EXPECT_EQ(line.find(end), std::string::npos) << test_case.at("id");
    EXPECT_EQ(json::parse(line).at("choices").at(0).at("delta").at("content"), json::value(text));
    EXPECT_EQ(kEventStream, test_case.at("expected").at("content_type").as_string());
  }
  EXPECT_GE(n, 8);
  EXPECT_TRUE(kSseKeepAlive.starts_with(": ") && kSseKeepAlive.ends_with("\n\n"));
  EXPECT_EQ(kSseDone, "data: [DONE]\n\n");
}

TEST(Shapes, LogprobsOfBrokenLettersAndOfTheImpossible) {
  const std::vector<TokenLogprob> logprobs = {
      {.bytes = "\xEC\x95", .logprob = -0.5, .top = {{"\xEC", -1.0 / 0.0}}}};
  const Piece piece{.text = "x", .logprobs = &logprobs, .finish = "stop"};
  const auto answer = whole_answer({.model = "m"}, {piece}, {}, {});
  const auto& entry = answer.at("choices").at(0).at("logprobs").at("content").at(0);
  EXPECT_EQ(entry.at("token"), "\xEF\xBF\xBD");
  EXPECT_EQ(entry.at("bytes"), (json::array{0xEC, 0x95}));
  EXPECT_EQ(entry.at("top_logprobs").at(0).at("logprob"), -9999.0);
  const auto completion = whole_answer({.chat = false}, {piece}, {}, {});
  EXPECT_EQ(completion.at("choices").at(0).at("logprobs").at("token_logprobs").at(0), -0.5);
}

}  // namespace
}  // namespace ondol::serve
