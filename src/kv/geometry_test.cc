#include "kv/geometry.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "support/support.h"

namespace ondol::kv {
namespace {

const std::map<std::string, ElementType, std::less<>> kTypes = {
    {"f32", {1, 4}},    {"f16", {1, 2}},    {"bf16", {1, 2}},   {"q8_0", {32, 34}},
    {"q4_0", {32, 18}}, {"q4_1", {32, 20}}, {"q5_0", {32, 22}}, {"q5_1", {32, 24}}};

TEST(Geometry, BytesPerToken) {
  // Llama 3.1 8B: 32 layers of 8 heads of 128: 128 KiB a token in f16.
  const GroupShape group{0, std::vector<LayerShape>(32, {8, 128, 128})};
  EXPECT_EQ(bytes_per_token(group, kTypes.at("f16"), kTypes.at("f16")), 128u << 10);
  EXPECT_EQ(bytes_per_token(group, kTypes.at("q8_0"), kTypes.at("q8_0")), 32u * 8 * 2 * 136);
}

TEST(Geometry, AWindowHoldsNoMoreThanItReads) {
  const GroupShape full{0, {}};
  const GroupShape window{512, {}};
  EXPECT_EQ(pages_for(full, 8192, 16, 256), 512u);
  EXPECT_EQ(pages_for(full, 8193, 16, 256), 513u);
  EXPECT_EQ(pages_for(window, 8192, 16, 256), 49u);  // (512 + 256) / 16 + 1
  EXPECT_EQ(pages_for(window, 100, 16, 256), 7u);
}

TEST(Geometry, SharedCases) {
  const std::string path = test::shared_path("cases/kv_memory.jsonl");
  if (path.empty()) GTEST_SKIP() << test::kNoShared;
  for (const auto& line : test::read_json_lines(path)) {
    SCOPED_TRACE(std::string(line.at("id").as_string()));
    const auto& in = line.at("input").as_object();
    const auto number = [&](const char* key) { return static_cast<int>(in.at(key).as_int64()); };
    const auto type = [&](const char* key) {
      return kTypes.find(std::string_view(in.at(key).as_string()))->second;
    };
    GroupShape group;
    for (int i = 0; i < number("n_layer"); ++i) {
      const auto& heads = in.at("n_head_kv");  // one number, or one per layer
      const auto n = heads.is_array() ? heads.as_array().at(static_cast<size_t>(i)).as_int64()
                                      : heads.as_int64();
      group.layers.push_back({static_cast<int>(n), number("head_dim_k"), number("head_dim_v")});
    }
    const uint64_t tokens =
        static_cast<uint64_t>(number("n_ctx")) * static_cast<uint64_t>(number("n_seq"));
    EXPECT_EQ(bytes_per_token(group, type("type_k"), type("type_v")) * tokens,
              static_cast<uint64_t>(line.at("expected").as_object().at("bytes").as_int64()));
  }
}

}  // namespace
}  // namespace ondol::kv
