#include "kernels/cpu_ops.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>

#include "kernels/cpu_ops_impl.h"
#include "kernels/rope_table.h"

namespace ondol::kernels {
namespace {

/// Weights of a chunk of rows as the file has them: work for some tens of microseconds.
constexpr int64_t kChunkBytes = 64 * 1024;
/// Unpacked weights that stay in the second-level cache while all columns pass.
constexpr int64_t kPanelBytes = 256 * 1024;
constexpr size_t kMaxFormats = 64;

/// The dot product of a weight type, or null. The leaves all have the same list in the same order.
const LeafDot* find_dot(const Leaf& leaf, quant::Type type) {
  static const std::array<int8_t, kMaxFormats> index = [] {
    std::array<int8_t, kMaxFormats> table{};
    table.fill(-1);
    const Leaf& any = *find_leaf(simd::Isa::kScalar);
    for (int i = 0; i < any.n_dots; ++i) {
      const quant::Format* format = quant::find_format(any.dots[i].format);
      assert(format != nullptr);
      table.at(static_cast<size_t>(format->type)) = static_cast<int8_t>(i);
    }
    return table;
  }();
  const auto id = static_cast<size_t>(type);
  return id < kMaxFormats && index[id] >= 0 ? &leaf.dots[index[id]] : nullptr;
}

size_t row_bytes(const Matrix& m) {
  const quant::Format* format = quant::find_format(m.type);
  assert(format != nullptr && m.cols % format->block_values == 0);
  return static_cast<size_t>(m.cols) / format->block_values * format->block_bytes;
}

}  // namespace

bool can_multiply(quant::Type type) {
  return find_dot(*find_leaf(simd::Isa::kScalar), type) != nullptr;
}

std::unique_ptr<Ops> make_cpu_ops(simd::Isa isa, ThreadTeam& team) {
  const Leaf* leaf = find_leaf(isa);
  assert(leaf != nullptr && "choose_isa gives only what is built");
  return std::make_unique<CpuOps>(*leaf, team);
}

void CpuOps::embed(Rows out, const Matrix& table, std::span<const int32_t> tokens) {
  assert(out.n == static_cast<int>(tokens.size()) && out.width == table.cols);
  const quant::Format* format = quant::find_format(table.type);
  const size_t bytes = row_bytes(table);
  for_rows(out, out.width * 4, [&](int i) {
    const auto token = static_cast<size_t>(tokens[static_cast<size_t>(i)]);
    format->dequantize(table.data + token * bytes, {out.row(i), static_cast<size_t>(out.width)});
  });
}

CpuOps::ActTiles& CpuOps::tiles_of(const LeafDot& dot) {
  for (ActTiles& tiles : acts_) {
    if (tiles.kind == dot.acts && tiles.lift == dot.lift) return tiles;
  }
  return acts_.emplace_back(dot.acts, dot.lift);
}

void CpuOps::fill_column(ActTiles& tiles, const Rows& x, int column) const {
  const int in_tile = column % leaf_.tile;
  const int first = column - in_tile;
  const auto left = static_cast<unsigned>(std::min(x.n - first, leaf_.tile));
  const auto width = static_cast<int>(std::bit_ceil(left));
  const auto w = static_cast<size_t>(width);
  const auto c = static_cast<size_t>(in_tile);
  auto* tile = reinterpret_cast<uint8_t*>(tiles.memory.data()) +
               static_cast<size_t>(column / leaf_.tile) * tiles.tile_bytes;
  const float* values = x.row(column);
  if (tiles.kind == quant::ActKind::kFloat) {
    auto* out = reinterpret_cast<float*>(tile);
    for (int i = 0; i < (x.width + 7) / 8 * 8; ++i)
      out[static_cast<size_t>(i) * w + c] = i < x.width ? values[i] : 0.0f;
    return;
  }
  const bool small = tiles.kind == quant::ActKind::kBlocks32;
  const size_t q = small ? 32 : 256;
  const size_t sums = small ? 0 : 32;
  const ActsOut out{reinterpret_cast<int8_t*>(tile + q * c),
                    reinterpret_cast<float*>(tile + (q + sums) * w + 4 * c),
                    small ? tile + 36 * w + 4 * c : tile + q * w + sums * c,
                    acts_bytes(tiles.kind, width), tiles.lift};
  (small ? leaf_.quantize32 : leaf_.quantize256)(values, x.width, out);
}

void CpuOps::fill_tiles(ActTiles& tiles, const Rows& x) {
  const int values = acts_values(tiles.kind);
  const auto blocks = static_cast<size_t>((x.width + values - 1) / values);
  tiles.tile_bytes = (blocks * acts_bytes(tiles.kind, leaf_.tile) + 63) / 64 * 64;
  const auto n_tiles = static_cast<size_t>((x.n + leaf_.tile - 1) / leaf_.tile);
  const size_t lines = n_tiles * tiles.tile_bytes / sizeof(Line);
  if (tiles.memory.size() < lines) tiles.memory.resize(lines);
  for_rows(x, x.width, [&](int i) { fill_column(tiles, x, i); });
}

void CpuOps::pack_weights(uint64_t room, std::function<void(std::span<const std::byte>)> packed) {
  auto reserved = AnonymousMemory::create(room, true);
  if (!reserved) return;
  pack_room_ = std::move(*reserved);
  on_packed_ = std::move(packed);
}

const CpuOps::PackedMatrix& CpuOps::pack_some(const Matrix& weight, const LeafDot& dot) {
  PackedMatrix& copy = packed_[weight.data];
  const auto bytes = static_cast<int64_t>(row_bytes(weight));
  pack_allowance_ += weight.rows * bytes / kPackShare;
  if (bytes % static_cast<int64_t>(dot.block_bytes) != 0) return copy;
  // Rows behind the last whole panel stay in the file.
  const int64_t whole = weight.rows / leaf_.rows * leaf_.rows;
  const int64_t missing = (whole - copy.rows) * bytes;
  const int64_t slice = std::min(missing, kPackSlice);
  if (missing == 0 || pack_allowance_ < slice) return copy;
  if (copy.data == nullptr) {
    // Loads may reach beyond a panel's last byte.
    const size_t size = (static_cast<size_t>(whole * bytes) / sizeof(Line) + 2) * sizeof(Line);
    if (size > pack_room_.size() - pack_used_) return copy;
    copy.data = reinterpret_cast<uint8_t*>(pack_room_.data() + pack_used_);
    pack_used_ += size;
  }
  const int64_t panel_bytes = leaf_.rows * bytes;
  const int64_t panels = std::max<int64_t>(1, slice / panel_bytes);
  const auto* in = reinterpret_cast<const uint8_t*>(weight.data) + copy.rows * bytes;
  uint8_t* out = copy.data + copy.rows * bytes;
  team_.parallel_for(panels, [&](int64_t panel, int) {
    const int64_t offset = panel * panel_bytes;
    dot.pack(in + offset, static_cast<size_t>(bytes), leaf_.rows, out + offset);
  });
  on_packed_({weight.data + copy.rows * bytes, static_cast<size_t>(panels * panel_bytes)});
  copy.rows += panels * leaf_.rows;
  pack_allowance_ -= panels * panel_bytes;
  return copy;
}

CpuOps::JobPlan CpuOps::plan_job(const MatmulJob& job, const LeafDot& dot, const ActTiles& tiles,
                                 bool many) const {
  const Matrix& w = job.weight;
  // Whole panels; small enough that the threads end at about the same time.
  const size_t bytes = row_bytes(w);
  const auto panel =
      static_cast<int64_t>(dot.panel_bytes) * ((w.cols + dot.panel_values - 1) / dot.panel_values);
  const int64_t by_cache =
      many ? kPanelBytes / panel * leaf_.rows : kChunkBytes / static_cast<int64_t>(bytes);
  const int64_t by_threads = w.rows / (4 * team_.size());
  const int64_t rows =
      std::max<int64_t>(1, std::min(by_cache, by_threads) / leaf_.rows) * leaf_.rows;
  return {.dot = &dot,
          .acts = tiles.data(),
          .packed = nullptr,
          .tile_bytes = tiles.tile_bytes,
          .row_bytes = bytes,
          .chunk_rows = rows,
          .first_chunk = 0,
          .scratch_bytes = many ? static_cast<size_t>(std::max(panel, kPanelBytes)) : 0};
}

void CpuOps::matmul(std::span<const MatmulJob> jobs, Rows x) {
  std::vector<const ActTiles*> filled;  // once however many jobs share them
  std::vector<JobPlan> plans;
  plans.reserve(jobs.size());
  int64_t chunks = 0;
  int64_t cost = 0;
  size_t scratch_bytes = 0;
  for (const MatmulJob& job : jobs) {
    const Matrix& w = job.weight;
    assert(w.cols == x.width && job.out.width == w.rows && job.out.n == x.n);
    const LeafDot* dot = find_dot(leaf_, w.type);
    assert(dot != nullptr && "the model refuses weights of other types when it is loaded");
    ActTiles& tiles = tiles_of(*dot);
    if (std::ranges::find(filled, &tiles) == filled.end()) {
      fill_tiles(tiles, x);
      filled.push_back(&tiles);
    }
    plans.push_back(plan_job(job, *dot, tiles, x.n > leaf_.tile));
    if (on_packed_) plans.back().packed = &pack_some(w, *dot);
    plans.back().first_chunk = chunks;
    chunks += (w.rows + plans.back().chunk_rows - 1) / plans.back().chunk_rows;
    cost += w.rows * w.cols * x.n / 8;
    scratch_bytes = std::max(scratch_bytes, plans.back().scratch_bytes);
  }
  const size_t lines = (scratch_bytes + sizeof(Line) - 1) / sizeof(Line);
  const auto needed = lines * static_cast<size_t>(team_.size());
  if (panels_.size() < needed) panels_.resize(needed);
  const auto run = [&](int64_t chunk, int thread) {
    size_t j = plans.size() - 1;
    while (plans[j].first_chunk > chunk) --j;
    run_chunk(plans[j], jobs[j], x, chunk - plans[j].first_chunk,
              std::span(panels_).subspan(static_cast<size_t>(thread) * lines, lines));
  };
  if (cost <= kInlineCost) {
    for (int64_t i = 0; i < chunks; ++i) run(i, 0);
  } else {
    team_.parallel_for(chunks, run);
  }
}

void CpuOps::run_chunk(const JobPlan& plan, const MatmulJob& job, const Rows& x, int64_t chunk,
                       std::span<Line> scratch) const {
  const int64_t row = chunk * plan.chunk_rows;
  const int64_t n_rows = std::min(plan.chunk_rows, job.weight.rows - row);
  const size_t offset = static_cast<size_t>(row) * plan.row_bytes;
  const bool packed =
      plan.packed != nullptr && row + n_rows / leaf_.rows * leaf_.rows <= plan.packed->rows;
  plan.dot->matmul({.weights = reinterpret_cast<const uint8_t*>(job.weight.data) + offset,
                    .packed = packed ? plan.packed->data + offset : nullptr,
                    .row_bytes = plan.row_bytes,
                    .n_rows = n_rows,
                    .n_values = job.weight.cols,
                    .acts = plan.acts,
                    .tile_bytes = plan.tile_bytes,
                    .n_columns = x.n,
                    .out = job.out.data + row,
                    .out_stride = job.out.stride,
                    .bias = job.bias != nullptr ? job.bias + row : nullptr,
                    .scratch = scratch.empty() ? nullptr : scratch[0].bytes,
                    .scratch_bytes = scratch.size_bytes()});
}

void CpuOps::rms_norm(Rows out, Rows x, const float* weight, float eps) {
  for_rows(x, x.width / 2,
           [&](int i) { leaf_.rms_norm(out.row(i), x.row(i), weight, x.width, eps); });
}

void CpuOps::rms_norm_heads(Rows x, int n_head, const float* weight, float eps) {
  const int dim = x.width / n_head;
  for_rows(x, x.width / 2, [&](int i) {
    for (int h = 0; h < n_head; ++h) {
      float* head = x.row(i) + int64_t{h} * dim;
      leaf_.rms_norm(head, head, weight, dim, eps);
    }
  });
}

const CpuOps::Angles& CpuOps::angles_for(const RopeParams& p, std::span<const int32_t> positions) {
  const auto half = static_cast<size_t>(p.n_rot / 2);
  const std::span<const float> factors(p.freq_factors, p.freq_factors != nullptr ? half : 0);
  for (const Angles& known : angles_) {
    const RopeParams& k = known.params;
    if (k.n_rot == p.n_rot && k.freq_base == p.freq_base && k.freq_scale == p.freq_scale &&
        k.attn_factor == p.attn_factor && k.yarn_ext_factor == p.yarn_ext_factor &&
        k.yarn_beta_fast == p.yarn_beta_fast && k.yarn_beta_slow == p.yarn_beta_slow &&
        k.original_ctx == p.original_ctx && std::ranges::equal(known.factors, factors) &&
        std::ranges::equal(known.positions, positions)) {
      return known;
    }
  }
  constexpr size_t kKept = 4;  // models have one or two kinds of rope
  if (angles_.size() < kKept) angles_.emplace_back();
  Angles& own = angles_[next_angles_++ % kKept];
  own.params = p;
  own.factors.assign(factors.begin(), factors.end());
  own.positions.assign(positions.begin(), positions.end());
  own.cos.resize(positions.size() * half);
  own.sin.resize(positions.size() * half);
  const std::vector<double> frequencies = rope_frequencies(p);
  for_rows({nullptr, static_cast<int>(positions.size()), p.n_rot, 0}, p.n_rot * 16, [&](int i) {
    const auto row = static_cast<size_t>(i);
    rope_angles(frequencies, positions[row], p.attn_factor, own.cos.data() + row * half,
                own.sin.data() + row * half);
  });
  return own;
}

void CpuOps::rope(Rows x, int n_head, const RopeParams& params,
                  std::span<const int32_t> positions) {
  assert(static_cast<int>(positions.size()) == x.n && params.n_rot % 2 == 0);
  const Angles& angles = angles_for(params, positions);
  const auto half = static_cast<size_t>(params.n_rot / 2);
  const int dim = x.width / n_head;
  for_rows(x, x.width, [&](int i) {
    const float* cos = angles.cos.data() + static_cast<size_t>(i) * half;
    const float* sin = angles.sin.data() + static_cast<size_t>(i) * half;
    for (int h = 0; h < n_head; ++h)
      leaf_.rope(x.row(i) + int64_t{h} * dim, cos, sin, params.n_rot, params.style);
  });
}

void CpuOps::add(Rows x, Rows y) {
  for_values(x, 1, [&](int row, int64_t first, int64_t n) {
    leaf_.add(x.row(row) + first, y.row(row) + first, n);
  });
}

void CpuOps::scale(Rows x, float factor) {
  for_values(
      x, 1, [&](int row, int64_t first, int64_t n) { leaf_.scale(x.row(row) + first, factor, n); });
}

void CpuOps::softcap(Rows x, float cap) {
  for_values(x, 4,
             [&](int row, int64_t first, int64_t n) { leaf_.softcap(x.row(row) + first, cap, n); });
}

void CpuOps::silu_mul(Rows gate, Rows up) {
  for_values(gate, 4, [&](int row, int64_t first, int64_t n) {
    leaf_.silu_mul(gate.row(row) + first, up.row(row) + first, n);
  });
}

void CpuOps::gelu_mul(Rows gate, Rows up) {
  for_values(gate, 4, [&](int row, int64_t first, int64_t n) {
    leaf_.gelu_mul(gate.row(row) + first, up.row(row) + first, n);
  });
}

void CpuOps::gather(Rows out, Rows x, std::span<const int32_t> rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(out.row(static_cast<int>(i)), x.row(rows[i]),
                static_cast<size_t>(x.width) * sizeof(float));
  }
}

}  // namespace ondol::kernels
