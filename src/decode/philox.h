// Thread rule: pure functions.
#pragma once

#include <array>
#include <cstdint>

namespace ondol::decode {

/// Philox 4x32 with ten rounds (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1,
/// 2, 3", SC'11): four random words that are a pure function of a counter and a key, so that no
/// generator state exists that a batch or a schedule could disturb.
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53;
  constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9;  // golden ratio
  constexpr uint32_t kWeyl1 = 0xBB67AE85;  // square root of three, minus one
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

/// Two independent numbers in [0, 1) with 53 bits each: the first chooses the token at `position`
/// of `sequence`, the second is for deciding about a drafted token there.
constexpr std::array<double, 2> uniform_pair(uint64_t seed, uint64_t sequence, uint64_t position) {
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  const auto words = philox4x32({low(position), high(position), low(sequence), high(sequence)},
                                {low(seed), high(seed)});
  const auto unit = [](uint32_t a, uint32_t b) {
    return static_cast<double>((uint64_t{a} << 32 | b) >> 11) * 0x1p-53;
  };
  return {unit(words[0], words[1]), unit(words[2], words[3])};
}

}  // namespace ondol::decode
