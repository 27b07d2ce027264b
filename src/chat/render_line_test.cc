#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/template.h"

namespace ondol::chat {
namespace {

TEST(RenderLine, GivesAStringOrAnError) {
  const auto made = ChatTemplate::compile(
      "{% for m in messages %}<{{ m.content }}>{% endfor %}{{ tools | tojson }}");
  ASSERT_TRUE(made);
  EXPECT_EQ(
      render_line(
          *made,
          R"({"messages": [{"role": "user", "content": "a\n\"é"}], "tools": [1.0, 18446744073709551616]})"),
      R"x("<a\n\"é>[1.0, 18446744073709551616]")x");
  for (const std::string_view broken :
       {"", "{\"messages\":", "nonsense", "{\"messages\": \"\xc3\"}"}) {
    EXPECT_THAT(render_line(*made, broken), testing::StartsWith(R"({"error":")")) << broken;
  }
}

}  // namespace
}  // namespace ondol::chat
