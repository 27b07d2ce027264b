// Thread rule: test code, pure functions.
//
// Included once for each instruction set, after the header of its `Wide`: the table
// ONDOL_WIDE_TESTS. Nothing of std:: is called, as in kernels.

#include "simd/wide_test.h"

namespace ondol::simd::test {
namespace {

constexpr int kLanes = Wide::kLanes;

/// f(i) is a vector's results from lane i on.
template <class F>
void each(int32_t* out, F f) {
  for (int i = 0; i < kLanesOfAll; i += kLanes) {
    const auto result = f(i);
    __builtin_memcpy(out + i, &result, sizeof result);
  }
}

// Functions of one kind, by the arrays they take.
template <auto kF>
void of_i(const WideInput& in, int32_t* out) {
  each(out, [&](int i) { return kF(Wide::iload(in.a + i)); });
}
template <auto kF>
void of_ii(const WideInput& in, int32_t* out) {
  each(out, [&](int i) { return kF(Wide::iload(in.a + i), Wide::iload(in.b + i)); });
}
template <auto kF>
void of_f(const WideInput& in, int32_t* out) {
  each(out, [&](int i) { return kF(Wide::fload(in.x + i)); });
}
template <auto kF>
void of_near(const WideInput& in, int32_t* out) {
  each(out, [&](int i) { return kF(Wide::fload(in.near + i)); });
}
template <auto kF>
void of_ff(const WideInput& in, int32_t* out) {
  each(out, [&](int i) { return kF(Wide::fload(in.x + i), Wide::fload(in.y + i)); });
}
template <auto kF>
void of_rows(const WideInput& in, int32_t* out) {
  each(out, [&](int i) { return kF(in.rows + i * kStride, kStride); });
}

void fma(const WideInput& in, int32_t* out) {
  each(out, [&](int i) {
    return Wide::fma(Wide::fload(in.x + i), Wide::fload(in.y + i), Wide::fload(in.z + i));
  });
}
void select(const WideInput& in, int32_t* out) {
  each(out, [&](int i) {
    const auto x = Wide::fload(in.x + i);
    const auto y = Wide::fload(in.y + i);
    return Wide::select(Wide::less(x, y), Wide::fload(in.z + i), x);
  });
}
void exp2i(const WideInput& in, int32_t* out) {
  each(out, [&](int i) { return Wide::exp2i(Wide::fload(in.whole + i)); });
}
void times_exp2(const WideInput& in, int32_t* out) {
  each(out, [&](int i) {
    return Wide::times_exp2(Wide::fload(in.moderate + i), Wide::fload(in.whole + i));
  });
}
void lookup(const WideInput& in, int32_t* out) {
  each(out, [&](int i) {
    const auto indices = Wide::and_(Wide::iload(in.a + i), Wide::splat32(0x0f0f0f0f));
    return Wide::lookup(in.table, indices);
  });
}
void splats(const WideInput& in, int32_t* out) {
  each(out, [&](int) {
    return Wide::add32(Wide::xor_(Wide::izero(), Wide::splat32(in.a[0])), Wide::splat32(1));
  });
}
void float_splats(const WideInput& in, int32_t* out) {
  each(out, [&](int) { return Wide::fadd(Wide::fzero(), Wide::splat_f(in.moderate[0])); });
}
void istore(const WideInput& in, int32_t* out) {
  for (int i = 0; i < kLanesOfAll; i += kLanes) Wide::istore(out + i, Wide::iload(in.a + i));
}

template <int kT>
void load_rows(const WideInput& in, int32_t* out) {
  each(out, [&](int i) {
    Wide::I32 four[4];
    Wide::load_rows(in.rows + i * kStride, kStride, four);
    return four[kT];
  });
}
void load_f16(const WideInput& in, int32_t* out) {
  each(out, [&](int i) { return Wide::load_f16(in.rows + 1 + 2 * i); });
}
void load_i8(const WideInput& in, int32_t* out) {
  each(out, [&](int i) { return Wide::load_i8(in.rows + 1 + i); });
}

/// How many lanes fload_n or fstore_n got wrong, over all n.
void parts(const WideInput& in, int32_t* out) {
  each(out, [&](int) { return Wide::izero(); });
  for (int n = 0; n <= kLanes; ++n) {
    float seen[kLanes];
    float stored[kLanes] = {};
    Wide::fstore(seen, Wide::fload_n(in.moderate, n));
    Wide::fstore_n(stored, Wide::fload(in.moderate), n);
    for (int i = 0; i < kLanes; ++i) {
      const float wanted = i < n ? in.moderate[i] : 0.0f;
      out[0] += seen[i] != wanted;
      out[1] += stored[i] != wanted;
    }
  }
}

/// Sums of whole numbers, exact in any order: of 16 lanes each, whatever a vector holds.
void reduce(const WideInput& in, int32_t* out) {
  each(out, [&](int) { return Wide::izero(); });
  for (int i = 0; i < kLanesOfAll; i += kLanes)
    out[i / 16] += static_cast<int32_t>(Wide::reduce(Wide::fload(in.whole + i)));
}
void reduce_max(const WideInput& in, int32_t* out) {
  each(out, [&](int) { return Wide::splat32(INT32_MIN); });
  for (int i = 0; i < kLanesOfAll; i += kLanes) {
    const auto largest = static_cast<int32_t>(Wide::reduce_max(Wide::fload(in.whole + i)));
    if (largest > out[i / 16]) out[i / 16] = largest;
  }
}

/// acc + scale * (codes . acts), with as many products in a part as it can take.
template <int kMax, bool kScaled>
void products(const WideInput& in, int32_t* out) {
  each(out, [&](int i) {
    auto total = Wide::iload(in.a + i);
    const auto factor = Wide::scale(Wide::iload(in.small + i));
    int lifted = 0;
    for (int first = 0; first < kGroups; first += Wide::kSteps<kMax>) {
      auto part = Wide::part_zero<kMax>();
      for (int g = first; g < kGroups && g < first + Wide::kSteps<kMax>; ++g) {
        Wide::I32 codes;
        __builtin_memcpy(&codes, in.codes[g] + i * 4, sizeof codes);
        codes = kMax == kSigned ? Wide::signed_codes(codes)
                                : Wide::and_(codes, Wide::splat32((kMax & 127) * 0x01010101));
        part = Wide::part_add<kMax>(part, codes, in.acts + 4 * g);
        for (int k = 0; k < 4; ++k) lifted += in.acts[4 * g + k];
      }
      total =
          kScaled ? Wide::widen_scaled<kMax>(total, part, factor) : Wide::widen<kMax>(total, part);
    }
    if (kMax != kSigned) return total;
    auto lift = Wide::splat32(lifted * Wide::kSignedLift);
    if (kScaled) lift = Wide::mul32(lift, Wide::iload(in.small + i));
    return Wide::sub32(total, lift);
  });
}
void dot_i16(const WideInput& in, int32_t* out) {
  each(out, [&](int i) {
    return Wide::dot_i16(Wide::iload(in.b + i), Wide::iload(in.a + i), in.pairs);
  });
}

constexpr WideTest kTests[] = {
    {"iload and istore", Compare::kBits, istore},
    {"izero and splat32", Compare::kBits, splats},
    {"and_", Compare::kBits, of_ii<Wide::and_>},
    {"or_", Compare::kBits, of_ii<Wide::or_>},
    {"xor_", Compare::kBits, of_ii<Wide::xor_>},
    {"add32", Compare::kBits, of_ii<Wide::add32>},
    {"sub32", Compare::kBits, of_ii<Wide::sub32>},
    {"mul32", Compare::kBits, of_ii<Wide::mul32>},
    {"shl<7>", Compare::kBits, of_i<Wide::shl<7>>},
    {"shr<7>", Compare::kBits, of_i<Wide::shr<7>>},
    {"sra<7>", Compare::kBits, of_i<Wide::sra<7>>},
    {"lookup", Compare::kBits, lookup},
    {"as_f32", Compare::kBits, of_i<Wide::as_f32>},
    {"even_bytes", Compare::kBits, of_i<Wide::even_bytes>},
    {"odd_bytes", Compare::kBits, of_i<Wide::odd_bytes>},
    {"load_rows 0", Compare::kBits, load_rows<0>},
    {"load_rows 1", Compare::kBits, load_rows<1>},
    {"load_rows 2", Compare::kBits, load_rows<2>},
    {"load_rows 3", Compare::kBits, load_rows<3>},
    {"load_u32", Compare::kBits, of_rows<Wide::load_u32>},
    {"load_u16", Compare::kBits, of_rows<Wide::load_u16>},
    {"load_u8", Compare::kBits, of_rows<Wide::load_u8>},
    {"load_f16", Compare::kFloats, load_f16},
    {"load_i8", Compare::kBits, load_i8},
    {"fzero and splat_f", Compare::kBits, float_splats},
    {"fload_n and fstore_n", Compare::kBits, parts},
    {"to_f32", Compare::kBits, of_i<Wide::to_f32>},
    {"halves", Compare::kFloats, of_i<Wide::halves>},
    {"high_halves", Compare::kFloats, of_i<Wide::high_halves>},
    {"fadd", Compare::kFloats, of_ff<Wide::fadd>},
    {"fsub", Compare::kFloats, of_ff<Wide::fsub>},
    {"fmul", Compare::kFloats, of_ff<Wide::fmul>},
    {"fdiv", Compare::kFloats, of_ff<Wide::fdiv>},
    {"fma", Compare::kFloats, fma},
    {"fmax", Compare::kBits, of_ff<Wide::fmax>},
    {"fmin", Compare::kBits, of_ff<Wide::fmin>},
    {"fabs", Compare::kBits, of_f<Wide::fabs>},
    {"copysign", Compare::kBits, of_ff<Wide::copysign>},
    {"less and select", Compare::kBits, select},
    {"round_even", Compare::kFloats, of_near<Wide::round_even>},
    {"to_i32", Compare::kBits, of_near<Wide::to_i32>},
    {"exp2i", Compare::kBits, exp2i},
    {"times_exp2", Compare::kBits, times_exp2},
    {"reduce", Compare::kBits, reduce},
    {"reduce_max", Compare::kBits, reduce_max},
    {"products of 2 bits", Compare::kBits, products<3, false>},
    {"products of 4 bits", Compare::kBits, products<15, false>},
    {"products of 5 bits", Compare::kBits, products<31, false>},
    {"products of 6 bits", Compare::kBits, products<63, false>},
    {"products of signed bytes", Compare::kBits, products<kSigned, false>},
    {"scaled products of 2 bits", Compare::kBits, products<3, true>},
    {"scaled products of 4 bits", Compare::kBits, products<15, true>},
    {"scaled products of 5 bits", Compare::kBits, products<31, true>},
    {"scaled products of 6 bits", Compare::kBits, products<63, true>},
    {"scaled products of signed bytes", Compare::kBits, products<kSigned, true>},
    {"dot_i16", Compare::kBits, dot_i16},
};

}  // namespace

extern const WideTests ONDOL_WIDE_TESTS;
const WideTests ONDOL_WIDE_TESTS = {kTests, static_cast<int>(sizeof(kTests) / sizeof(kTests[0]))};

}  // namespace ondol::simd::test
