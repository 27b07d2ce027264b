#include "base/anonymous_memory.h"

#include <gtest/gtest.h>

#include <limits>

namespace ondol {
namespace {

TEST(AnonymousMemory, IsZeroWritableAndMoves) {
  auto made = AnonymousMemory::create(size_t{5} << 20);
  ASSERT_TRUE(made);
  AnonymousMemory memory = std::move(*made);
  EXPECT_EQ(made->data(), nullptr);
  EXPECT_EQ(memory.data()[0], std::byte{0});
  memory.data()[memory.size() - 1] = std::byte{7};
  AnonymousMemory other;
  other = std::move(memory);
  EXPECT_EQ(other.size(), size_t{5} << 20);
  EXPECT_EQ(other.data()[other.size() - 1], std::byte{7});
}

TEST(AnonymousMemory, NothingAndTooMuch) {
  EXPECT_EQ(AnonymousMemory::create(0)->size(), 0u);
  EXPECT_EQ(AnonymousMemory::create(std::numeric_limits<size_t>::max() / 2).error().kind,
            ErrorKind::kNoMemory);
}

}  // namespace
}  // namespace ondol
