#include "chat/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "support/support.h"

namespace ondol::chat {
namespace {

using testing::HasSubstr;

ChatTemplate compiled(std::string_view source) {
  return std::move(ChatTemplate::compile(source).value());
}

Result<std::string> rendered_once(std::string_view source, const boost::json::object& request) {
  const auto made = ChatTemplate::compile(source);
  return made ? made->render(request) : Result<std::string>(propagate(made));
}

TEST(ChatTemplate, RendersOurOwnTemplates) {
  for (const auto& line : test::read_json_lines(test::data_path("templates.jsonl"))) {
    const auto source = boost::json::value_to<std::string>(line.at("template"));
    const auto rendered = rendered_once(source, line.at("request").as_object());
    if (const auto* wanted = line.if_contains("rendered")) {
      ASSERT_TRUE(rendered) << line << rendered.error().message;
      EXPECT_EQ(*rendered, boost::json::value_to<std::string>(*wanted)) << line;
    } else {
      ASSERT_FALSE(rendered) << line;
      EXPECT_THAT(rendered.error().message, HasSubstr(std::string(line.at("error").as_string())));
    }
  }
}

TEST(ChatTemplate, NamesTheLineOfWhatCannotBeCompiled) {
  const auto made = ChatTemplate::try_compile("one\n{% if x %}\n{{ 1 + }}");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, FailureKind::kSyntax);
  EXPECT_EQ(made.error().line, 3);
  const auto error = made.error().error();
  EXPECT_EQ(error.kind, ErrorKind::kRefused);
  EXPECT_THAT(error.message, HasSubstr("line 3"));
}

TEST(ChatTemplate, PassesTheTemplatesOwnWordsOn) {
  const auto failed = compiled("\n{{ raise_exception('roles must alternate') }}")
                          .try_render(R"({"messages": []})", nullptr);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, FailureKind::kRaise);
  EXPECT_EQ(failed.error().message, "roles must alternate");
  EXPECT_EQ(failed.error().line, 2);
}

TEST(ChatTemplate, StopsEndlessWork) {
  for (const auto* source :
       {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{{ 'x' * 10 ** 12 }}"}) {
    const auto failed = compiled(source).try_render(R"({"messages": []})", nullptr);
    ASSERT_FALSE(failed) << source;
    EXPECT_EQ(failed.error().kind, FailureKind::kLimit) << source;
  }
}

TEST(ChatTemplate, TakesTheLocalTimeWhereTheRequestHasNone) {
  const auto year = compiled("{{ strftime_now('%Y') | int > 2020 }}")
                        .render({{"messages", boost::json::array()}});
  ASSERT_TRUE(year) << year.error().message;
  EXPECT_EQ(*year, "True");
}

TEST(ChatTemplate, RefusesBrokenRequests) {
  const auto plain = compiled("x");
  for (const std::string_view request :
       {"", "{", "[]", "{}", R"({"messages": 1})", R"({"messages": [1]})",
        R"({"messages": [], "options": 1})", R"({"messages": [], "date": "today"})",
        "{\"messages\": [\"\xff\"]}",
        R"({"messages": [{"role": "user"}], "options": {"continue_final_message": true}})"}) {
    const auto failed = plain.try_render(request, nullptr);
    ASSERT_FALSE(failed) << request;
    EXPECT_EQ(failed.error().kind, FailureKind::kApi) << request;
  }
}

TEST(ChatTemplate, AModelWithoutOneSaysWhatToDo) {
  for (const std::optional<std::string_view> none :
       {std::optional<std::string_view>(), std::optional<std::string_view>("")}) {
    const auto made = ChatTemplate::of_model(none);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(made.error().message, HasSubstr("--template"));
    EXPECT_THAT(made.error().message, HasSubstr("--raw"));
  }
}

}  // namespace
}  // namespace ondol::chat
