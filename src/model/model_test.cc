#include "model/model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gguf/writer.h"
#include "support/support.h"

namespace ondol::model {
namespace {

gguf::File open(const std::string& name) {
  auto file = gguf::File::open(Env::real(), test::data_path("models/" + name));
  EXPECT_TRUE(file) << file.error().message;
  return *file;
}

/// The error of loading a toy model after `change`.
std::string refusal(const std::string& name, const std::function<void(gguf::Writer&)>& change) {
  gguf::Writer writer = gguf::Writer::copy_of(open(name));
  change(writer);
  const std::string bytes = writer.to_bytes().value();
  const auto file =
      gguf::File::parse(std::as_bytes(std::span(bytes.data(), bytes.size())), "changed");
  EXPECT_TRUE(file) << file.error().message;
  const auto model = Model::load(*file);
  EXPECT_FALSE(model);
  if (model) return "";
  EXPECT_EQ(model.error().kind, ErrorKind::kRefused);
  return model.error().message;
}

TEST(Model, EveryArchitectureOfTheRegistryLoads) {
  for (const Architecture& arch : architectures()) {
    const auto file = open(std::string(arch.name) + ".gguf");
    const auto model = Model::load(file);
    ASSERT_TRUE(model) << arch.name << ": " << model.error().message;
    const Config& config = (*model)->config();
    EXPECT_EQ(config.arch, arch.name);
    EXPECT_EQ(static_cast<int>((*model)->cache().layers.size()), config.n_layer);
    EXPECT_GT((*model)->weight_bytes_per_token(), 0u);
    EXPECT_LE((*model)->weight_bytes_per_token(), file.size_bytes());
  }
}

TEST(Model, GemmaLayersTakeTurnsBetweenWindowAndAll) {
  const auto model = Model::load(open("gemma3.gguf"));
  ASSERT_TRUE(model);
  const CacheSpec& cache = (*model)->cache();
  ASSERT_EQ(cache.groups.size(), 2u);
  EXPECT_EQ(cache.groups[0].window, 0);
  EXPECT_GT(cache.groups[1].window, 0);
  for (size_t i = 0; i < cache.layers.size(); ++i)
    EXPECT_EQ(cache.layers[i].group, (i + 1) % 6 == 0 ? 0 : 1) << i;
}

TEST(Model, TheErrorNamesTheKeyAtFault) {
  const auto with = [](const char* key, uint64_t value) {
    return refusal("llama.gguf",
                   [&](gguf::Writer& w) { w.set(key, static_cast<uint32_t>(value)); });
  };
  for (const char* key : {"llama.attention.head_count", "llama.attention.head_count_kv",
                          "llama.block_count", "llama.embedding_length", "llama.context_length"}) {
    EXPECT_NE(with(key, 0).find(key), std::string::npos) << key;
  }
  EXPECT_NE(with("llama.block_count", 0xffffffffu).find("llama.block_count"), std::string::npos);
  EXPECT_NE(with("llama.rope.dimension_count", 7).find("llama.rope.dimension_count"),
            std::string::npos);
}

TEST(Model, TheErrorNamesTheTensorAtFault) {
  const auto missing =
      refusal("qwen3.gguf", [](gguf::Writer& w) { w.drop_tensor("blk.1.attn_k_norm.weight"); });
  EXPECT_NE(missing.find("attn_{q,k}_norm.weight"), std::string::npos) << missing;
  const auto absent =
      refusal("llama.gguf", [](gguf::Writer& w) { w.drop_tensor("blk.0.ffn_down.weight"); });
  EXPECT_NE(absent.find("blk.0.ffn_down.weight"), std::string::npos) << absent;
}

TEST(Model, AnUnknownArchitectureIsNamedBesideTheKnownOnes) {
  const auto message =
      refusal("llama.gguf", [](gguf::Writer& w) { w.set("general.architecture", "nosucharch"); });
  EXPECT_NE(message.find("nosucharch"), std::string::npos) << message;
  EXPECT_NE(message.find("gemma3"), std::string::npos) << message;
}

}  // namespace
}  // namespace ondol::model
