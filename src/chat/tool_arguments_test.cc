#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "chat/template.h"

namespace ondol::chat {
namespace {

boost::json::object with_arguments(std::string_view arguments) {
  return {
      {"messages",
       {{{"role", "assistant"}, {"tool_calls", {{{"function", {{"arguments", arguments}}}}}}}}}};
}

const boost::json::value& arguments_of(const boost::json::object& request) {
  return request.at("messages").at(0).at("tool_calls").at(0).at("function").at("arguments");
}

TEST(ToolArguments, ObjectsAreParsedAndOtherTextsStay) {
  auto request = with_arguments(R"({"b": 1, "a": [2.0]})");
  parse_tool_arguments(request);
  EXPECT_EQ(arguments_of(request), (boost::json::object{{"b", 1}, {"a", {2.0}}}));
  for (const std::string_view text : {"", "{", "3", "plain words"}) {
    request = with_arguments(text);
    parse_tool_arguments(request);
    EXPECT_EQ(arguments_of(request), boost::json::string(text));
  }
}

TEST(ToolArguments, OddShapesAreLeftAlone) {
  for (const std::string_view text :
       {"{}", R"({"messages": 1})",
        R"({"messages": [1, {}, {"tool_calls": 1}, {"tool_calls": [1, {"function": 2}]}]})"}) {
    auto request = boost::json::parse(text).as_object();
    parse_tool_arguments(request);
    EXPECT_EQ(request, boost::json::parse(text).as_object());
  }
}

}  // namespace
}  // namespace ondol::chat
