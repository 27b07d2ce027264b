#include "quant/formats.h"

#include <gtest/gtest.h>

namespace ondol::quant {
namespace {

TEST(Formats, AreFoundByIdAndName) {
  for (const Format& format : formats()) {
    EXPECT_EQ(find_format(format.type), &format) << format.name;
    EXPECT_EQ(find_format(format.name), &format) << format.name;
  }
  EXPECT_EQ(find_format(Type{4}), nullptr);  // Q4_2 was removed from GGUF
  EXPECT_EQ(find_format(Type{1000}), nullptr);
  EXPECT_EQ(find_format("Q4_2"), nullptr);
}

}  // namespace
}  // namespace ondol::quant
