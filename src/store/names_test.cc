#include "store/names.h"

#include <gtest/gtest.h>

namespace ondol::store {
namespace {

TEST(NamesTest, ModelNamesStayInsideTheStore) {
  for (const char* good : {"smollm2", "Qwen2.5-7B_q4+x", "모델", "a"})
    EXPECT_TRUE(is_model_name(good)) << good;
  for (const char* bad : {"", ".", "..", "a/b", "../a", "a..b", "-n", ".hidden", "a\\b", "a b",
                          "a\nb", "a:b", "a.gguf"}) {
    EXPECT_FALSE(is_model_name(bad)) << bad;
    EXPECT_EQ(check_model_name(bad).error().kind, ErrorKind::kUsage);
  }
  EXPECT_FALSE(is_model_name(std::string(129, 'a')));
  EXPECT_FALSE(is_model_name(std::string_view("a\0b", 3)));
}

TEST(NamesTest, PathsOfAServerStayInsideAFolder) {
  for (const char* good : {"a.gguf", "Q4_K_M/a b.gguf", "x/y/z", "...a"})
    EXPECT_TRUE(is_safe_relative_path(good));
  for (const char* bad :
       {"", "/etc/x", "../x", "a/../x", "a//b", "a/", "./a", "a\\b", "a\nb", "a/."}) {
    EXPECT_FALSE(is_safe_relative_path(bad)) << bad;
  }
}

TEST(NamesTest, SplitNames) {
  const auto split = parse_split_name("Q8/m-00002-of-00005.gguf");
  ASSERT_TRUE(split);
  EXPECT_EQ(split->stem, "Q8/m");
  EXPECT_EQ(split->number, 2u);
  EXPECT_EQ(split->count, 5u);
  EXPECT_EQ(format_split_name(*split), "Q8/m-00002-of-00005.gguf");
  for (const char* no :
       {"m.gguf", "m-00000-of-00005.gguf", "m-00006-of-00005.gguf", "m-0001-of-00005.gguf",
        "m-0000x-of-00005.gguf", "-00001-of-00001.gguf", "m-00001-of-00005.bin"}) {
    EXPECT_FALSE(parse_split_name(no)) << no;
  }
  EXPECT_EQ(default_model_name("Q8/m-00002-of-00005.gguf"), "m");
  EXPECT_EQ(default_model_name("a/b.Q4_0.gguf"), "b.Q4_0");
  EXPECT_EQ(default_model_name("my model (1).gguf"), "my-model--1-");
}

TEST(NamesTest, HubSpecs) {
  const auto spec = parse_hub_spec("hf:org/re.po-GGUF:Q4_K_M");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->repo, "org/re.po-GGUF");
  EXPECT_EQ(spec->selector, "Q4_K_M");
  EXPECT_EQ(parse_hub_spec("hf:a/b")->selector, "");
  EXPECT_EQ(parse_hub_spec("hf:a/b:d/f.gguf")->selector, "d/f.gguf");
  for (const char* bad : {"hf:", "hf:a", "hf:a/", "hf:/b", "hf:a/b/c", "hf:../b", "hf:a/..",
                          "hf:a/b:", "hf:a/b:../c", "hf:a b/c", "a/b", "hf:a/b?x"}) {
    const auto refused = parse_hub_spec(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  }
}

}  // namespace
}  // namespace ondol::store
