#include "quant/formats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "quant/fit.h"
#include "quant/floats.h"
#include "quant/iq4_nl.h"
#include "quant/iq4_xs.h"
#include "quant/mxfp4.h"
#include "quant/q2_k.h"
#include "quant/q3_k.h"
#include "quant/q4_0.h"
#include "quant/q4_1.h"
#include "quant/q4_k.h"
#include "quant/q5_0.h"
#include "quant/q5_1.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"
#include "quant/q8_0.h"
#include "quant/q8_k.h"

namespace ondol::quant {
namespace {

/// One block at a time; blocks are copied because a file need not align them.
template <class Block>
void dequantize_row(const std::byte* blocks, std::span<float> out) {
  for (size_t i = 0; i < out.size(); i += Block::kValues, blocks += sizeof(Block)) {
    Block block;
    std::memcpy(&block, blocks, sizeof(Block));
    dequantize(block, out.data() + i);
  }
}

/// What a block cannot hold is cut before it can spoil the scale that its neighbours share.
float fittable(float value) {
  return std::isnan(value) ? 0.0f : std::clamp(value, -kLargest, kLargest);
}

template <class Block>
void quantize_row(std::span<const float> values, std::byte* blocks) {
  for (size_t i = 0; i < values.size(); i += Block::kValues, blocks += sizeof(Block)) {
    Block block{};
    if constexpr (Block::kValues == 1) {
      quantize(values.data() + i, block);
    } else {
      std::array<float, Block::kValues> fit;
      std::ranges::transform(values.subspan(i, Block::kValues), fit.begin(), fittable);
      quantize(fit.data(), block);
    }
    std::memcpy(blocks, &block, sizeof(Block));
  }
}

template <class Block>
constexpr Format row(uint32_t id, std::string_view name) {
  return {Type{id},           name, Block::kValues, sizeof(Block), dequantize_row<Block>,
          quantize_row<Block>};
}

/// A type that the GGUF specification names and that may stand in a file, but that nothing is
/// computed with.
constexpr Format size_only(uint32_t id, std::string_view name, uint32_t values, uint32_t bytes) {
  return {Type{id}, name, values, bytes, nullptr, nullptr};
}

constexpr std::array kFormats = {
    row<BlockF32>(0, "F32"),           row<BlockF16>(1, "F16"),
    row<BlockQ4_0>(2, "Q4_0"),         row<BlockQ4_1>(3, "Q4_1"),
    row<BlockQ5_0>(6, "Q5_0"),         row<BlockQ5_1>(7, "Q5_1"),
    row<BlockQ8_0>(8, "Q8_0"),         size_only(9, "Q8_1", 32, 36),
    row<BlockQ2_K>(10, "Q2_K"),        row<BlockQ3_K>(11, "Q3_K"),
    row<BlockQ4_K>(12, "Q4_K"),        row<BlockQ5_K>(13, "Q5_K"),
    row<BlockQ6_K>(14, "Q6_K"),        row<BlockQ8_K>(15, "Q8_K"),
    size_only(16, "IQ2_XXS", 256, 66), size_only(17, "IQ2_XS", 256, 74),
    size_only(18, "IQ3_XXS", 256, 98), size_only(19, "IQ1_S", 256, 50),
    row<BlockIQ4_NL>(20, "IQ4_NL"),    size_only(21, "IQ3_S", 256, 110),
    size_only(22, "IQ2_S", 256, 82),   row<BlockIQ4_XS>(23, "IQ4_XS"),
    size_only(24, "I8", 1, 1),         size_only(25, "I16", 1, 2),
    size_only(26, "I32", 1, 4),        size_only(27, "I64", 1, 8),
    size_only(28, "F64", 1, 8),        size_only(29, "IQ1_M", 256, 56),
    row<BlockBF16>(30, "BF16"),        size_only(34, "TQ1_0", 256, 54),
    size_only(35, "TQ2_0", 256, 66),   row<BlockMXFP4>(39, "MXFP4"),
    size_only(40, "NVFP4", 64, 36),    size_only(41, "Q1_0", 128, 18),
};
static_assert(std::ranges::is_sorted(kFormats, {}, &Format::type));

}  // namespace

std::span<const Format> formats() { return kFormats; }

const Format* find_format(Type type) {
  const auto found = std::ranges::lower_bound(kFormats, type, {}, &Format::type);
  return found != kFormats.end() && found->type == type ? &*found : nullptr;
}

const Format* find_format(std::string_view name) {
  const auto found = std::ranges::find(kFormats, name, &Format::name);
  return found != kFormats.end() ? &*found : nullptr;
}

}  // namespace ondol::quant
