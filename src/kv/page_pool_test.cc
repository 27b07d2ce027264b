#include "kv/page_pool.h"

#include <gtest/gtest.h>

#include <random>

#include "kv/sequence.h"

namespace ondol::kv {
namespace {

constexpr int kPageTokens = 16;

TEST(PagePool, AllocatesEachPageOnceAndThenRefuses) {
  auto pool = PagePool::create(4096, 3);
  ASSERT_TRUE(pool);
  std::vector<bool> seen(3, false);
  for (int i = 0; i < 3; ++i) {
    const auto page = pool->allocate();
    ASSERT_TRUE(page);
    EXPECT_FALSE(seen[*page]);
    seen[*page] = true;
  }
  const auto none = pool->allocate();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::kNoMemory);
  pool->release(1);
  EXPECT_EQ(pool->allocate().value(), 1u);
  EXPECT_TRUE(pool->check_integrity());
}

TEST(PagePool, ASharedPageIsFreeOnlyWhenItsLastHolderLetsGo) {
  auto pool = PagePool::create(64, 1);
  const PageId page = pool->allocate().value();
  pool->retain(page);
  pool->release(page);
  EXPECT_EQ(pool->n_free(), 0u);
  EXPECT_EQ(pool->holders(page), 1u);
  pool->release(page);
  EXPECT_EQ(pool->n_free(), 1u);
}

TEST(PagePool, AnAbsurdSizeIsAnErrorNotACrash) {
  const auto pool = PagePool::create(size_t{1} << 40, 1u << 20);
  ASSERT_FALSE(pool);
  EXPECT_EQ(pool.error().kind, ErrorKind::kNoMemory);
}

class SequenceTest : public testing::Test {
 protected:
  void SetUp() override {
    groups_.push_back({PagePool::create(64, 8).value(), 0});
    groups_.push_back({PagePool::create(64, 8).value(), 20});
  }
  std::vector<Group> groups_;
};

TEST_F(SequenceTest, ExtendsByWholePagesAndGivesAllBack) {
  {
    SequencePages pages(groups_, kPageTokens);
    ASSERT_TRUE(pages.extend(1));
    ASSERT_TRUE(pages.extend(16));
    EXPECT_EQ(pages.table(0).size(), 1u);
    ASSERT_TRUE(pages.extend(17));
    EXPECT_EQ(pages.table(0).size(), 2u);
    EXPECT_EQ(pages.pages_held(), 4u);
    const auto full = pages.extend(129);
    ASSERT_FALSE(full);
    EXPECT_EQ(pages.pages_held(), 4u) << "all or nothing";
  }
  for (const Group& group : groups_) {
    EXPECT_EQ(group.pool.n_free(), 8u);
    EXPECT_TRUE(group.pool.check_integrity());
  }
}

TEST_F(SequenceTest, AWindowDropsThePagesBehindIt) {
  SequencePages pages(groups_, kPageTokens);
  ASSERT_TRUE(pages.extend(64));
  pages.drop_behind(35);  // reads 16..35
  EXPECT_EQ(pages.table(1)[0], kNoPage);
  EXPECT_NE(pages.table(1)[1], kNoPage);
  EXPECT_NE(pages.table(0)[0], kNoPage);
  pages.drop_behind(34);  // never goes back
  pages.drop_behind(51);  // reads 32..51
  EXPECT_EQ(pages.table(1)[1], kNoPage);
  EXPECT_NE(pages.table(1)[2], kNoPage);
}

TEST_F(SequenceTest, RandomOperationsKeepThePoolWhole) {
  std::mt19937 random(7);
  std::vector<SequencePages> live;
  std::vector<int> length;
  for (int i = 0; i < 2000; ++i) {
    const auto pick = random() % 4;
    if (live.empty() || pick == 0) {
      live.emplace_back(groups_, kPageTokens);
      length.push_back(0);
    } else if (pick == 1) {
      live.pop_back();
      length.pop_back();
    } else {
      const int next = length.back() + static_cast<int>(random() % 20);
      if (live.back().extend(next)) length.back() = next;
      live.back().drop_behind(length.back());
    }
    for (const Group& group : groups_) ASSERT_TRUE(group.pool.check_integrity());
  }
}

}  // namespace
}  // namespace ondol::kv
