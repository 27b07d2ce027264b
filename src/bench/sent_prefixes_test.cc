#include "bench/sent_prefixes.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

namespace ondol::bench {
namespace {

TEST(SentPrefixes, FindsTheLongestBeginning) {
  SentPrefixes sent;
  const std::string text(100, 'a');
  EXPECT_EQ(sent.known(text), 0u);
  sent.add(text);
  EXPECT_EQ(sent.known(text), 100u);
  EXPECT_EQ(sent.known(text + "b"), 96u) << "down to a whole block";
  EXPECT_EQ(sent.known(text.substr(0, 32)), 32u);
  EXPECT_EQ(sent.known("b" + text), 0u);
  EXPECT_EQ(sent.known(std::string(40, 'a') + std::string(60, 'b')), 32u);
}

TEST(SentPrefixes, AgreesWithComparingAllTexts) {
  std::mt19937 random(7);
  SentPrefixes sent;
  std::set<std::string> all;
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (size_t i = random() % 8; i > 0; --i) text += std::string(16, "ab"[random() % 2]);
    size_t longest = 0;
    for (const auto& other : all) {
      size_t same = 0;
      while (same < std::min(text.size(), other.size()) && text[same] == other[same]) ++same;
      longest = std::max(longest, same / 16 * 16);
    }
    EXPECT_EQ(sent.known(text), longest);
    sent.add(text);
    all.insert(text);
  }
}

TEST(SentPrefixes, IsBounded) {
  SentPrefixes sent;
  std::string text(SentPrefixes::kBlock * SentPrefixes::kMaxBlocks, '\0');
  for (size_t i = 0; i < text.size(); i += 8) text[i] = static_cast<char>(i * 2654435761u >> 24);
  EXPECT_FALSE(sent.is_full());
  sent.add(text);
  sent.add("x" + text);
  EXPECT_TRUE(sent.is_full());
  EXPECT_EQ(sent.known("y" + text), 0u);
}

}  // namespace
}  // namespace ondol::bench
