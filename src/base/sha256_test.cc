#include "base/sha256.h"

#include <gtest/gtest.h>

#include <string_view>

namespace ondol {
namespace {

// The examples of FIPS 180-4's own test vectors.
TEST(Sha256Test, KnownAnswersInAnyPieces) {
  Sha256 hash;
  const auto add = [&](std::string_view text) { hash.update(std::as_bytes(std::span(text))); };
  EXPECT_EQ(hash.finish(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  add("a");
  add("bc");
  EXPECT_EQ(hash.finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace ondol
