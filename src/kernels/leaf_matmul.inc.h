// Thread rule: pure functions. Part of leaf.inc.h: the quantisation of activations and the matrix
// products.
//
// Weights are multiplied as panels (quant/panel.h): kLanes rows side by side, each lane the sum of
// a row of its own, so that nothing is added across lanes. A panel is unpacked from the file's own
// format; with one tile of columns block by block on its way through the registers, with more into
// memory that stays in the second-level cache while all tiles pass. Both do the same arithmetic.

#include <cstdint>
#include <cstring>

#include "kernels/leaf.h"
#include "quant/panel.h"

namespace ondol::kernels {
namespace {

using quant::ActKind;
using quant::Panel256;
using quant::Panel32;
using quant::PanelFloats;
using simd::Vec;
using simd::Wide;

/// Columns of a full tile: as many sums as leave registers free for what is multiplied.
constexpr int kTile = Wide::kTile;
static_assert(kTile <= kMaxTile);

ONDOL_VEC float largest(const float* x, int n) {
  auto m = Vec::fzero();
  for (int i = 0; i < n; i += 8) m = Vec::fmax(m, Vec::fabs(Vec::fload(x + i)));
  return Vec::reduce_max(m);
}

/// q = x / step for 32 values; writes the sums of the two halves.
ONDOL_VEC void quantize_values(const float* x, float inverse, int8_t* q, int (&sums)[2]) {
  const auto f = Vec::splat_f(inverse);
  const auto bytes =
      Vec::quantized(Vec::fmul(Vec::fload(x), f), Vec::fmul(Vec::fload(x + 8), f),
                     Vec::fmul(Vec::fload(x + 16), f), Vec::fmul(Vec::fload(x + 24), f));
  Vec::store(q, bytes);
  int32_t parts[8];
  Vec::istore(parts, Vec::dot_u8(Vec::izero(), Vec::splat(1), bytes));
  sums[0] = (parts[0] + parts[1]) + (parts[2] + parts[3]);
  sums[1] = (parts[4] + parts[5]) + (parts[6] + parts[7]);
}

/// Below this a block counts as zero: 127 / largest would no longer be a float.
constexpr float kSmallest = 1e-36f;

/// The n-th block's part of an array of a quantised row.
template <class T>
ONDOL_VEC T* nth(T* first, int64_t n, size_t step) {
  return reinterpret_cast<T*>(reinterpret_cast<uint8_t*>(first) + static_cast<size_t>(n) * step);
}

void quantize32(const float* x, int64_t n, const ActsOut& out) {
  auto* extra = static_cast<uint8_t*>(out.extra);
  for (int64_t i = 0; i < n / 32; ++i) {
    const float m = largest(x + 32 * i, 32);
    const float step = m < kSmallest ? 0.0f : m / 127.0f;
    const float inverse = m < kSmallest ? 0.0f : 127.0f / m;
    int sums[2];
    quantize_values(x + 32 * i, inverse, nth(out.q, i, out.step), sums);
    *nth(out.scale, i, out.step) = step;
    const int32_t lifted = -out.lift * (sums[0] + sums[1]);
    const float offset = step * static_cast<float>(sums[0] + sums[1]);
    std::memcpy(nth(extra, i, out.step),
                out.lift != 0 ? static_cast<const void*>(&lifted) : &offset, 4);
  }
}

void quantize256(const float* x, int64_t n, const ActsOut& out) {
  for (int64_t i = 0; i < n / 256; ++i) {
    const float m = largest(x + 256 * i, 256);
    const float inverse = m < kSmallest ? 0.0f : 127.0f / m;
    int8_t* q = nth(out.q, i, out.step);
    auto* sums = nth(static_cast<int16_t*>(out.extra), i, out.step);
    for (int j = 0; j < 8; ++j) {
      int two[2];
      quantize_values(x + 256 * i + 32 * j, inverse, q + 32 * j, two);
      sums[2 * j] = static_cast<int16_t>(two[0]);
      sums[2 * j + 1] = static_cast<int16_t>(two[1]);
    }
    *nth(out.scale, i, out.step) = m < kSmallest ? 0.0f : m / 127.0f;
  }
}

/// total[c] += scale * (codes . x[c]) for 4 * kSteps values, the scale 1 where kScaled is false.
template <class Format, int kSteps, bool kScaled, int C, class X>
ONDOL_VEC void add_products(const Wide::I32* codes, Wide::I32 scale, X x, Wide::I32 (&total)[C]) {
  constexpr int kMax = Format::kMax;
  constexpr int kFit = Wide::kSteps<kMax> < kSteps ? Wide::kSteps<kMax> : kSteps;
  quant::unrolled<(kSteps + kFit - 1) / kFit>([&](auto group) ONDOL_VEC_LAMBDA {
    constexpr int kFirst = decltype(group)::value * kFit;
    constexpr int kEnd = kFirst + kFit < kSteps ? kFirst + kFit : kSteps;
    Wide::Part parts[C];
    for (int c = 0; c < C; ++c) {
      // Where parts are int32 and not scaled, they go on from the total.
      parts[c] = Wide::kWholeParts && !kScaled ? total[c] : Wide::part_zero<kMax>();
    }
    quant::unrolled<kEnd - kFirst>([&](auto step) ONDOL_VEC_LAMBDA {
      constexpr int t = kFirst + decltype(step)::value;
      for (int c = 0; c < C; ++c) parts[c] = Wide::part_add<kMax>(parts[c], codes[t], x(c) + 4 * t);
    });
    for (int c = 0; c < C; ++c) {
      if constexpr (kScaled) {
        total[c] = Wide::widen_scaled<kMax>(total[c], parts[c], scale);
      } else {
        total[c] = Wide::kWholeParts ? parts[c] : Wide::widen<kMax>(total[c], parts[c]);
      }
    }
  });
}

template <class Format, int C>
ONDOL_VEC void add_block(const Panel32<Wide>& w, const Acts32<C>& x, Wide::F32 (&sums)[C]) {
  Wide::I32 total[C];
  for (int c = 0; c < C; ++c)
    total[c] = Format::kLift != 0 ? Wide::splat32(x.extra[c]) : Wide::izero();
  add_products<Format, 8, false>(
      w.codes, Wide::izero(), [&](int c) ONDOL_VEC_LAMBDA { return x.q[c]; }, total);
  for (int c = 0; c < C; ++c) {
    const auto factor = Wide::fmul(w.d, Wide::splat_f(x.scale[c]));
    sums[c] = Wide::fma(Wide::to_f32(total[c]), factor, sums[c]);
    if constexpr (Format::kOffset) {
      const auto offset = Wide::splat_f(__builtin_bit_cast(float, x.extra[c]));
      sums[c] = Wide::fma(w.m, offset, sums[c]);
    }
  }
}

template <class Format, int C>
ONDOL_VEC void add_block(const Panel256<Wide>& w, const Acts256<C>& x, Wide::F32 (&sums)[C]) {
  using quant::Pairs;
  constexpr int kSub = Format::kSub;
  Wide::I32 total[C];
  Wide::I32 pairs[C];
  for (int c = 0; c < C; ++c) total[c] = pairs[c] = Wide::izero();
  for (int j = 0; j < 256 / kSub; ++j) {
    add_products<Format, kSub / 4, true>(
        w.codes + j * (kSub / 4), w.scales[j],
        [&](int c) ONDOL_VEC_LAMBDA { return x.q[c] + kSub * j; }, total);
  }
  if constexpr (Format::kPairs != Pairs::kNone) {
    for (int p = 0; p < 8; ++p) {
      for (int c = 0; c < C; ++c) pairs[c] = Wide::dot_i16(pairs[c], w.pairs[p], x.sums[c] + 2 * p);
    }
  }
  for (int c = 0; c < C; ++c) {
    if constexpr (Format::kPairs == Pairs::kLift) total[c] = Wide::add32(total[c], pairs[c]);
    const auto scale = Wide::splat_f(x.scale[c]);
    sums[c] = Wide::fma(Wide::to_f32(total[c]), Wide::fmul(w.d, scale), sums[c]);
    if constexpr (Format::kPairs == Pairs::kMins) {
      const auto below = Wide::fmul(Wide::to_f32(pairs[c]), Wide::fmul(w.dmin, scale));
      sums[c] = Wide::fsub(sums[c], below);
    }
  }
}

template <class Format, int C, int N>
ONDOL_VEC void add_block(const PanelFloats<Wide, N>& w, const float* x, Wide::F32 (&sums)[C]) {
  for (int i = 0; i < N; ++i) {
    for (int c = 0; c < C; ++c)
      sums[c] = Wide::fma(w.values[i], Wide::splat_f(x[i * C + c]), sums[c]);
  }
}

/// What the three kinds of panels differ in: the activations of block i, and where it lies in a
/// row.
template <class Out>
struct KindOf;
template <>
struct KindOf<Panel32<Wide>> {
  static constexpr ActKind kActs = ActKind::kBlocks32;
  static constexpr int kValues = 32;
  template <int C>
  ONDOL_VEC const auto& acts(const uint8_t* tile, int64_t i) {
    return reinterpret_cast<const Acts32<C>*>(tile)[i];
  }
};
template <>
struct KindOf<Panel256<Wide>> {
  static constexpr ActKind kActs = ActKind::kBlocks256;
  static constexpr int kValues = 256;
  template <int C>
  ONDOL_VEC const auto& acts(const uint8_t* tile, int64_t i) {
    return reinterpret_cast<const Acts256<C>*>(tile)[i];
  }
};
template <int N>
struct KindOf<PanelFloats<Wide, N>> {
  static constexpr ActKind kActs = ActKind::kFloat;
  static constexpr int kValues = N;
  template <int C>
  ONDOL_VEC const float* acts(const uint8_t* tile, int64_t i) {
    return reinterpret_cast<const float*>(tile) + i * N * C;
  }
};

template <class Format>
constexpr size_t block_bytes() {
  if constexpr (KindOf<typename Format::Out>::kActs == ActKind::kFloat)
    return 16;
  else
    return sizeof(typename Format::Block);
}

template <class Format>
constexpr int64_t n_blocks(const MatmulTask& t) {
  constexpr int kValues = KindOf<typename Format::Out>::kValues;
  return (t.n_values + kValues - 1) / kValues;
}

/// How far ahead memory is asked for weights, in bytes of a row: about 9 KiB for all rows of a
/// panel. It is on its way then for about as long as memory takes, and the first-level cache still
/// has room.
constexpr size_t kAhead = 9216 / Wide::kLanes;
/// The same in packed weights, which lie in the order in which they are read.
constexpr size_t kPackedAhead = 4096;

/// Where in the weights block i of the rows is, kAhead bytes further on: later in the same rows, or
/// in the panel after them.
ONDOL_VEC const uint8_t* look_ahead(const MatmulTask& t, const uint8_t* rows, size_t offset) {
  size_t at = offset + kAhead;
  while (at >= t.row_bytes) {
    at -= t.row_bytes;
    rows += Wide::kLanes * t.row_bytes;
  }
  return rows + at;
}

/// Where a product takes its weights from: InFile or InPacked. read() gives block i of the rows
/// from `row` on.
template <class Format>
struct InFile {
  /// Rows beyond the last repeat it, and bytes beyond a row's end are zero, from a copy: nothing
  /// outside the task is read.
  ONDOL_VEC void read(const MatmulTask& t, int64_t row, int64_t i, typename Format::Out& panel) {
    constexpr size_t kBytes = block_bytes<Format>();
    constexpr int64_t kBlocksPerLine = kBytes < 64 ? 64 / kBytes : 1;
    const uint8_t* rows = t.weights + static_cast<size_t>(row) * t.row_bytes;
    const size_t offset = static_cast<size_t>(i) * kBytes;
    if (row + Wide::kLanes <= t.n_rows && offset + kBytes <= t.row_bytes) [[likely]] {
      const quant::Source<Wide> in{rows + offset, t.row_bytes, look_ahead(t, rows, offset)};
      if (i % kBlocksPerLine == 0) in.fetch_all();
      Format::unpack(in, panel);
      return;
    }
    uint8_t copy[Wide::kLanes][kBytes] = {};
    const size_t size = offset + kBytes <= t.row_bytes ? kBytes : t.row_bytes - offset;
    for (int r = 0; r < Wide::kLanes; ++r) {
      const int64_t there = row + r < t.n_rows ? r : t.n_rows - 1 - row;
      std::memcpy(copy[r], rows + static_cast<size_t>(there) * t.row_bytes + offset, size);
    }
    Format::unpack(quant::Source<Wide>{copy[0], kBytes, copy[0]}, panel);
  }
};

template <class Format>
struct InPacked {
  static constexpr size_t kBytes = block_bytes<Format>();
  static constexpr bool kOddFirst = KindOf<typename Format::Out>::kActs == ActKind::kBlocks32;
  using Source = quant::PackedSource<Wide, kBytes, kOddFirst>;

  ONDOL_VEC void read(const MatmulTask& t, int64_t row, int64_t i, typename Format::Out& panel) {
    const uint8_t* at = t.packed + static_cast<size_t>(row) * t.row_bytes +
                        static_cast<size_t>(i) * kBytes * Wide::kLanes;
    const Source in{at, at + kPackedAhead};
    Format::unpack(in, panel);
  }
};

template <int C>
ONDOL_VEC void put_results(const MatmulTask& t, int64_t row, int column, Wide::F32 (&sums)[C]) {
  const auto n = static_cast<int>(t.n_rows - row < Wide::kLanes ? t.n_rows - row : Wide::kLanes);
  for (int c = 0; c < C && column + c < t.n_columns; ++c) {
    auto value = sums[c];
    if (t.bias != nullptr) value = Wide::fadd(value, Wide::fload_n(t.bias + row, n));
    float* out = t.out + (column + c) * t.out_stride + row;
    n == Wide::kLanes ? Wide::fstore(out, value) : Wide::fstore_n(out, value, n);
  }
}

/// kLanes rows times one tile that holds all columns: the weights are read once, from where they
/// lie.
template <class Format, template <class> class In, int C>
void direct(const MatmulTask& t, int64_t row) {
  using Kind = KindOf<typename Format::Out>;
  Wide::F32 sums[C];
  for (int c = 0; c < C; ++c) sums[c] = Wide::fzero();
  const int64_t n = n_blocks<Format>(t);
  for (int64_t i = 0; i < n; ++i) {
    typename Format::Out panel;
    In<Format>::read(t, row, i, panel);
    add_block<Format>(panel, Kind::template acts<C>(t.acts, i), sums);
  }
  put_results(t, row, 0, sums);
}

/// The same from unpacked panels, for the tile that begins with `column`.
template <class Format, int C>
void unpacked(const MatmulTask& t, int64_t row, int column, const typename Format::Out* panels) {
  using Kind = KindOf<typename Format::Out>;
  const uint8_t* tile = t.acts + static_cast<size_t>(column / kTile) * t.tile_bytes;
  Wide::F32 sums[C];
  for (int c = 0; c < C; ++c) sums[c] = Wide::fzero();
  const int64_t n = n_blocks<Format>(t);
  for (int64_t i = 0; i < n; ++i) {
    add_block<Format>(panels[i], Kind::template acts<C>(tile, i), sums);
  }
  put_results(t, row, column, sums);
}

template <class Format, template <class> class In>
void unpack_panel(const MatmulTask& t, int64_t row, typename Format::Out* panels) {
  const int64_t n = n_blocks<Format>(t);
  for (int64_t i = 0; i < n; ++i) In<Format>::read(t, row, i, panels[i]);
}

/// f(Index<C>) of the narrowest tile that holds `columns`.
template <int C = 1, class F>
ONDOL_VEC void with_width(int columns, F f) {
  if constexpr (C == kTile) {
    f(quant::Index<C>{});
  } else {
    columns <= C ? f(quant::Index<C>{}) : with_width<2 * C>(columns, f);
  }
}

template <class Format, template <class> class In>
void matmul_from(const MatmulTask& t) {
  using Out = typename Format::Out;
  if (t.n_columns <= kTile) {
    with_width(t.n_columns, [&](auto width) {
      for (int64_t row = 0; row < t.n_rows; row += Wide::kLanes)
        direct<Format, In, decltype(width)::value>(t, row);
    });
    return;
  }
  auto* panels = reinterpret_cast<Out*>(t.scratch);
  const int64_t n = n_blocks<Format>(t);
  const auto fit = static_cast<int64_t>(t.scratch_bytes / sizeof(Out)) / n * Wide::kLanes;
  for (int64_t first = 0; first < t.n_rows; first += fit) {
    const int64_t end = first + fit < t.n_rows ? first + fit : t.n_rows;
    for (int64_t row = first; row < end; row += Wide::kLanes)
      unpack_panel<Format, In>(t, row, panels + (row - first) / Wide::kLanes * n);
    for (int column = 0; column < t.n_columns; column += kTile) {
      with_width(t.n_columns - column, [&](auto width) {
        for (int64_t row = first; row < end; row += Wide::kLanes) {
          unpacked<Format, decltype(width)::value>(t, row, column,
                                                   panels + (row - first) / Wide::kLanes * n);
        }
      });
    }
  }
}

template <class Format>
void matmul(const MatmulTask& t) {
  MatmulTask rest = t;
  if (t.packed != nullptr) {
    MatmulTask whole = t;
    whole.n_rows = t.n_rows / Wide::kLanes * Wide::kLanes;
    if (whole.n_rows > 0) matmul_from<Format, InPacked>(whole);
    rest.n_rows -= whole.n_rows;
    rest.weights += static_cast<size_t>(whole.n_rows) * t.row_bytes;
    rest.out += whole.n_rows;
    if (t.bias != nullptr) rest.bias += whole.n_rows;
  }
  if (rest.n_rows > 0) matmul_from<Format, InFile>(rest);
}

template <class Format>
void pack(const uint8_t* rows, size_t row_bytes, int64_t n_rows, uint8_t* packed) {
  constexpr size_t kBytes = block_bytes<Format>();
  for (int64_t row = 0; row < n_rows; row += Wide::kLanes) {
    const uint8_t* panel = rows + static_cast<size_t>(row) * row_bytes;
    for (size_t offset = 0; offset < row_bytes; offset += kBytes) {
      InPacked<Format>::Source::pack(panel + offset, row_bytes, packed);
      packed += Wide::kLanes * kBytes;
    }
  }
}

template <class Format>
constexpr LeafDot entry(const char* name) {
  using Kind = KindOf<typename Format::Out>;
  int lift = 0;
  if constexpr (Kind::kActs == ActKind::kBlocks32) lift = Format::kLift;
  return {.format = name,
          .acts = Kind::kActs,
          .lift = lift,
          .panel_values = Kind::kValues,
          .panel_bytes = sizeof(typename Format::Out),
          .block_bytes = block_bytes<Format>(),
          .matmul = matmul<Format>,
          .pack = pack<Format>};
}

}  // namespace
}  // namespace ondol::kernels
