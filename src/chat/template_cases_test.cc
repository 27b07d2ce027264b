// The reference renderings beside the checkout: published templates, the template language, and
// hostile templates.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <chrono>
#include <filesystem>

#include "chat/template.h"
#include "support/support.h"

namespace ondol::chat {
namespace {

namespace json = boost::json;
using Outcome = std::expected<Prompt, TemplateFailure>;

Outcome run(std::string_view source, std::string_view request) {
  const auto made = ChatTemplate::try_compile(source);
  if (!made) {
    return std::unexpected(made.error());
  }
  return made->try_render(request, nullptr);
}

std::string told(const Outcome& outcome) {
  return outcome ? outcome->text
                 : "error at line " + std::to_string(outcome.error().line) + ": " +
                       outcome.error().message;
}

std::vector<std::string> raw_lines(const std::string& path) {
  std::vector<std::string> lines;
  const std::string text = test::read_file(path);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// `[[text, count], …]`, each repeated, all joined.
std::string joined(const json::array& parts) {
  std::string text;
  for (const json::value& part : parts) {
    for (int64_t n = part.at(1).as_int64(); n > 0; --n) {
      text += part.at(0).as_string();
    }
  }
  return text;
}

void expect_failure(const json::object& line, const Outcome& outcome, bool exact_message) {
  const json::object& error = line.at("error").as_object();
  ASSERT_FALSE(outcome) << line.at("id") << told(outcome);
  EXPECT_EQ(outcome.error().line, error.at("line").as_int64()) << line.at("id") << told(outcome);
  EXPECT_EQ(outcome.error().kind == FailureKind::kSyntax, error.at("kind") == "syntax")
      << line.at("id");
  if (exact_message) {
    EXPECT_EQ(outcome.error().kind, FailureKind::kRaise) << line.at("id");
    EXPECT_EQ(outcome.error().message, error.at("message").as_string()) << line.at("id");
  }
}

TEST(TemplateCases, PublishedTemplates) {
  const auto folder = test::shared_path("reference/templates");
  if (folder.empty()) GTEST_SKIP() << test::kNoShared;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") {
      continue;
    }
    const auto made = ChatTemplate::compile(test::read_file(entry.path()));
    ASSERT_TRUE(made) << entry.path() << made.error().message;
    for (const auto& raw :
         raw_lines(std::filesystem::path(entry.path()).replace_extension(".jsonl"))) {
      const json::object line = json::parse(raw).as_object();
      const Outcome outcome = made->try_render(raw, nullptr);
      if (line.contains("rendered")) {
        EXPECT_EQ(told(outcome), json::value_to<std::string>(line.at("rendered"))) << line.at("id");
      } else {
        expect_failure(line, outcome, line.at("error").at("kind") == "raise");
      }
      ++count;
    }
  }
  EXPECT_EQ(count, 379);
}

TEST(TemplateCases, TheLanguage) {
  const auto path = test::shared_path("reference/templates/jinja.jsonl");
  if (path.empty()) GTEST_SKIP() << test::kNoShared;
  for (const auto& raw : raw_lines(path)) {
    const json::object line = json::parse(raw).as_object();
    const auto* parts = line.if_contains("template_parts");
    const std::string source = parts != nullptr ? joined(parts->as_array())
                                                : json::value_to<std::string>(line.at("template"));
    const std::string_view match = line.at("match").as_string();
    const auto begin = std::chrono::steady_clock::now();
    const Outcome outcome = run(source, raw);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (match == "exact" || (match != "error" && outcome)) {
      EXPECT_EQ(told(outcome), json::value_to<std::string>(line.at("rendered"))) << line.at("id");
    } else if (match == "message-and-line" || match == "kind-and-line") {
      expect_failure(line, outcome, match == "message-and-line");
    } else {
      ASSERT_FALSE(outcome) << line.at("id");
      EXPECT_NE(outcome.error().kind, FailureKind::kInternal) << line.at("id");
    }
    if (const auto* limits = line.if_contains("limits")) {
      EXPECT_LT(took.count(), limits->at("seconds").to_number<double>()) << line.at("id");
    }
  }
}

/// The text of a case's input, in which numbers stay as they are written, as a request.
std::string request_of(const std::string& raw, const json::object& input) {
  const std::string_view begin = "\"input\": {";
  const size_t from = raw.find(begin) + begin.size();
  const size_t to = raw.find("}, \"expected\": ", from);
  const auto* now = input.if_contains("now");
  return "{\"date\": " + json::serialize(now != nullptr ? *now : json::value()) + ", " +
         raw.substr(from, to - from) + "}";
}

TEST(TemplateCases, WaysInWhichServersFail) {
  const auto path = test::shared_path("cases/chat_templates.jsonl");
  if (path.empty()) GTEST_SKIP() << test::kNoShared;
  for (const auto& raw : raw_lines(path)) {
    const json::object line = json::parse(raw).as_object();
    const json::object& input = line.at("input").as_object();
    const json::object& expected = line.at("expected").as_object();
    std::string source;
    if (const auto* repeat = input.if_contains("template_repeat")) {
      const json::array& r = repeat->as_array();
      source = joined({{r[2], 1}, {r[0], r[1]}, {r[3], 1}, {r[4], r[1]}, {r[5], 1}});
    } else {
      source = json::value_to<std::string>(input.at("template"));
    }
    std::string request = request_of(raw, input);
    if (input.contains("path")) {
      // What the server does with a client's request.
      json::object context = input.at("context").as_object();
      parse_tool_arguments(context);
      request = json::serialize(json::object{{"context", context}});
    }
    const Outcome outcome = run(source, request);
    if (const auto* rendered = expected.if_contains("rendered")) {
      EXPECT_EQ(told(outcome), json::value_to<std::string>(*rendered)) << line.at("id");
      continue;
    }
    ASSERT_FALSE(outcome) << line.at("id");
    if (const auto* mention = expected.if_contains("message_should_mention")) {
      EXPECT_NE(outcome.error().message.find(mention->as_string()), std::string::npos)
          << told(outcome);
    }
  }
}

}  // namespace
}  // namespace ondol::chat
