#include "gguf/describe.h"

#include <cmath>

#include "gguf/test_files.h"
#include "gguf/text.h"

namespace ondol::gguf::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class DescribeTest : public FolderTest {
 protected:
  /// A small file that looks like a language model.
  static Writer model() {
    Writer w = small_writer();
    w.set("general.architecture", "toy")
        .set("toy.context_length", 8192u)
        .set("toy.block_count", 30u);
    w.set("toy.embedding_length", 576u)
        .set("toy.attention.head_count", 9u)
        .set("toy.attention.head_count_kv", 3u);
    w.set("toy.norm_epsilon", 1e-5f).set("toyish.context_length", 1u);
    w.set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", "smollm");
    w.set_strings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b\xFF", "c"});
    w.set("tokenizer.chat_template", "{% for m in messages %}\n\t{{ m }}\x1B[2J")
        .set("tokenizer.chat_template.tools", "t");
    return w;
  }
  Description described(const Writer& w) {
    EXPECT_TRUE(w.write(env_, in_folder("m.gguf")));
    return describe(env_, in_folder("m.gguf")).value();
  }
};

TEST_F(DescribeTest, SaysWhatTheFileHolds) {
  const Description d = described(model());
  EXPECT_EQ(d.architecture, "toy");
  EXPECT_EQ(d.name, "Small \xEC\x9D\x98 model");
  EXPECT_EQ(d.parameters, 8u + 64u + 32u);
  EXPECT_EQ(d.weight_bytes, 32u + 36u + 34u);
  EXPECT_DOUBLE_EQ(d.bits_per_weight(), 8.0 * 102 / 104);
  ASSERT_EQ(d.mix.size(), 3u);
  EXPECT_EQ(d.mix[0].name, "Q4_0");
  EXPECT_EQ(d.mix[0].bytes, 36u);
  EXPECT_EQ(d.mix[0].parameters, 64u);
  EXPECT_EQ(d.context_length, 8192u);
  EXPECT_EQ(d.head_count_kv, 3u);
  EXPECT_FALSE(d.expert_count);
  EXPECT_EQ(d.tokenizer_pre, "smollm");
  EXPECT_EQ(d.vocabulary_size, 3u);
  ASSERT_TRUE(d.chat_template);
  EXPECT_EQ(d.named_templates, std::vector<std::string_view>{"tokenizer.chat_template.tools"});
}

TEST_F(DescribeTest, TextIsForPeople) {
  const std::string text =
      to_text(described(model()), {.metadata = true, .tensors = true, .chat_template = true});
  for (const auto* part :
       {"architecture   toy", "104", "context        8,192 tokens", "toy.norm_epsilon", "1e-05",
        "Q4_0", "splitting rule smollm", "4 x 2", "\n\t{{ m }}\\x1b[2J", "a.str", "[\"x\", \"\""}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_TRUE(is_utf8(text));
  EXPECT_THAT(text, Not(HasSubstr("\x1B")));
  EXPECT_THAT(to_text(described(model())), Not(HasSubstr("toyish")));
}

TEST_F(DescribeTest, JsonIsValidAndExact) {
  const std::string text =
      to_json(described(model()), {.metadata = true, .tensors = true, .chat_template = true});
  ASSERT_TRUE(is_utf8(text));
  const auto out = boost::json::parse(text).as_object();
  EXPECT_EQ(out.at("architecture").as_string(), "toy");
  EXPECT_EQ(out.at("parameters").to_number<int>(), 104);
  EXPECT_EQ(out.at("version").to_number<int>(), 3);
  EXPECT_EQ(out.at("context_length").to_number<int>(), 8192);
  EXPECT_TRUE(out.at("expert_count").is_null());
  const auto& own = out.at("hyperparameters").as_object();
  EXPECT_EQ(own.size(), 6u);
  EXPECT_EQ(own.at("norm_epsilon").to_number<double>(), 1e-5);
  EXPECT_EQ(out.at("tokenizer").as_object().at("pre").as_string(), "smollm");
  EXPECT_EQ(out.at("chat_template").as_string(), "{% for m in messages %}\n\t{{ m }}\x1B[2J");
  const auto& metadata = out.at("metadata").as_object();
  EXPECT_EQ(metadata.at("v.u64").as_uint64(), ~uint64_t{0});
  EXPECT_EQ(metadata.at("v.i64").as_int64(), INT64_MIN);
  EXPECT_EQ(metadata.at("tokenizer.ggml.tokens").as_array()[1].as_string(), "b\xEF\xBF\xBD");
  EXPECT_EQ(out.at("tensors").as_array().size(), 3u);
}

TEST_F(DescribeTest, OddKeysLeaveFieldsEmpty) {
  Writer w = model();
  w.set("general.architecture", 7)
      .set("general.name", true)
      .set("tokenizer.ggml.tokens", 1)
      .erase("v.u8");
  w.set("tokenizer.chat_template", 2.5);
  const Description d = described(w);
  EXPECT_EQ(d.architecture, "");
  EXPECT_FALSE(d.context_length);
  EXPECT_FALSE(d.vocabulary_size);
  EXPECT_FALSE(d.chat_template);
  EXPECT_THAT(to_text(d), HasSubstr("architecture   not stated"));
  EXPECT_TRUE(boost::json::parse(to_json(d)).as_object().at("architecture").is_null());

  w.set("general.architecture", "toy")
      .set("toy.context_length", -1)
      .set_array("toy.attention.head_count", std::vector<int>{1, 2});
  const Description arrays = described(w);
  EXPECT_FALSE(arrays.context_length);
  EXPECT_FALSE(arrays.head_count);
  EXPECT_THAT(to_json(arrays), HasSubstr("\"attention.head_count\":[1,2]"));
}

TEST_F(DescribeTest, NotANumberStaysValidJson) {
  Writer w = model();
  w.set("toy.a", std::nanf(""))
      .set("toy.b", -HUGE_VAL)
      .set_array("toy.c", std::vector<float>{HUGE_VALF, 0.1f});
  const auto own =
      boost::json::parse(to_json(described(w))).as_object().at("hyperparameters").as_object();
  EXPECT_EQ(own.at("a").as_string(), "nan");
  EXPECT_EQ(own.at("b").as_string(), "-inf");
  EXPECT_EQ(own.at("c").as_array()[0].as_string(), "inf");
  EXPECT_EQ(own.at("c").as_array()[1].as_double(), 0.1);
}

TEST_F(DescribeTest, ReferenceModels) {
  const std::string folder = ondol::test::shared_path("reference/models");
  if (folder.empty()) GTEST_SKIP() << ondol::test::kNoShared;
  size_t seen = 0;
  const auto names = env_.list(folder).value();
  for (const std::string& name : names) {
    if (!name.ends_with(".gguf")) continue;
    const auto d = describe(env_, folder + "/" + name);
    ASSERT_TRUE(d) << d.error().message;
    EXPECT_FALSE(d->architecture.empty()) << name;
    EXPECT_TRUE(d->context_length) << name;
    EXPECT_GT(d->parameters, 1000u) << name;
    EXPECT_TRUE(boost::json::parse(to_json(*d, {true, true, true})).is_object()) << name;
    ++seen;
  }
  EXPECT_GE(seen, 35u);
}

}  // namespace
}  // namespace ondol::gguf::test
