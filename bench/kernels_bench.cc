// How fast the kernels are on this machine: matrix products per format and number of columns,
// attention, and the machine's own read bandwidth beside them.
//
//   kernels_bench [--isa NAME] [--threads N] [--rows N] [--cols N] [--format
//   NAME|model|attention]... [--clock wall|cpu]
//
// `--clock cpu` takes the CPU time of the calling thread instead of the time that passed: with one
// thread it is the steadier figure on a machine that has other work. Columns of the table:
// gigabytes of weights read per second, and multiply-adds per nanosecond (10^9 MAC/s).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "base/thread_team.h"
#include "kernels/cpu_ops.h"
#include "kernels/leaf.h"
#include "simd/isa.h"

namespace ondol::kernels {

bool g_cpu_clock = false;

namespace {

struct Options {
  std::string isa;
  int threads = 2;
  int64_t rows = 8192;
  int64_t cols = 2048;
  std::vector<std::string> formats;
};

double seconds_now() {
  timespec t{};
  clock_gettime(g_cpu_clock ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// The best of several runs, in seconds: other work on the machine only ever makes a run longer.
template <class Work>
double best_time(Work work) {
  double best = 1e9;
  const double start = seconds_now();
  for (int i = 0; i < 3 || seconds_now() - start < 0.15; ++i) {
    const double begin = seconds_now();
    work();
    best = std::min(best, seconds_now() - begin);
  }
  return best;
}

std::vector<float> noise(size_t n) {
  std::mt19937 engine(7);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> values(n);
  for (float& v : values) v = uniform(engine);
  return values;
}

/// Reading a large array with all threads: the limit for one stream of decoding.
void print_bandwidth(ThreadTeam& team) {
  std::vector<uint64_t> memory(size_t{256} << 17, 1);
  std::vector<uint64_t> sums(static_cast<size_t>(team.size()) * 8);
  const double seconds = best_time([&] {
    team.run([&](int thread, int n) {
      const size_t size = memory.size() / static_cast<size_t>(n);
      const uint64_t* p = memory.data() + static_cast<size_t>(thread) * size;
      uint64_t sum[8] = {};
      for (size_t i = 0; i + 8 <= size; i += 8) {
        for (size_t j = 0; j < 8; ++j) sum[j] += p[i + j];
      }
      for (const uint64_t s : sum) sums[static_cast<size_t>(thread) * 8] += s;
    });
  });
  std::printf("read bandwidth %.1f GB/s, %d threads\n",
              static_cast<double>(memory.size()) * 8e-9 / seconds, team.size());
}

void bench_format(Ops& ops, const Options& options, const quant::Format& format) {
  const auto n = static_cast<size_t>(options.cols);
  const size_t row_bytes = n / format.block_values * format.block_bytes;
  std::vector<std::byte> weights(row_bytes * static_cast<size_t>(options.rows));
  const std::vector<float> values = noise(n);
  format.quantize(values, weights.data());
  for (size_t r = 1; r < static_cast<size_t>(options.rows); ++r) {
    std::memcpy(weights.data() + r * row_bytes, weights.data(), row_bytes);
  }
  std::printf("%-8s", std::string(format.name).c_str());
  for (const int columns : {1, 2, 4, 8, 64, 512}) {
    std::vector<float> x = noise(n * static_cast<size_t>(columns));
    std::vector<float> out(static_cast<size_t>(options.rows * columns));
    const MatmulJob job{{out.data(), columns, static_cast<int>(options.rows), options.rows},
                        {format.type, options.rows, options.cols, weights.data()},
                        nullptr};
    const double seconds = best_time([&] {
      ops.matmul({&job, 1}, {x.data(), columns, static_cast<int>(options.cols), options.cols});
    });
    const double macs =
        static_cast<double>(options.rows) * static_cast<double>(options.cols) * columns;
    if (columns == 1) std::printf(" %6.1f", static_cast<double>(weights.size()) * 1e-9 / seconds);
    std::printf(" %7.1f", macs * 1e-9 / seconds);
  }
  std::printf("\n");
  std::fflush(stdout);
}

struct AttentionShape {
  int heads, heads_kv, dim;
};

/// `rows` new tokens at the end of a context.
void bench_attention(Ops& ops, const AttentionShape& shape, KvType type, int context, int rows) {
  const int width_kv = shape.heads_kv * shape.dim;
  const int pages = context / kPageTokens;
  KvLayer layer{.n_head_kv = shape.heads_kv, .head_dim_k = shape.dim, .head_dim_v = shape.dim};
  layer.v_offset =
      static_cast<size_t>(shape.heads_kv * kPageTokens) * kv_row_bytes(type, shape.dim);
  // Pages hold several layers, so those of one layer do not follow each other in memory.
  KvGroup group{.page_bytes = 6 * layer.v_offset};
  std::vector<std::byte> memory(group.page_bytes * static_cast<size_t>(pages));
  group.base = memory.data();
  std::vector<uint32_t> table(static_cast<size_t>(pages));
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<uint32_t>(i);
  const std::span<const uint32_t> tables[] = {table};
  const KvSequence whole{0, context, 0, tables};
  const KvLayer layers[] = {layer, layer, layer};
  KvView view{type, type, {&group, 1}, {layers, 1}, {&whole, 1}};
  std::vector<float> kv = noise(static_cast<size_t>(context * width_kv));
  const Rows keys{kv.data(), context, width_kv, width_kv};
  const double written = best_time([&] { ops.kv_write(view, 0, keys, keys); });
  const KvSequence last{0, rows, context - rows, tables};
  view.sequences = {&last, 1};
  const int width = shape.heads * shape.dim;
  std::vector<float> q = noise(static_cast<size_t>(rows * width));
  std::vector<float> out(q.size());
  const double seconds = best_time([&] {
    ops.attention({out.data(), rows, width, width}, {q.data(), rows, width, width}, view, 0,
                  {.n_head = shape.heads, .scale = 0.125f});
  });
  std::printf("%2d/%d x %3d  %-5s %5d %4d %10.1f %8.1f %8.1f %8.0f\n", shape.heads, shape.heads_kv,
              shape.dim, type == KvType::kF16 ? "f16" : "q8_0", context, rows, seconds * 1e6,
              2.0 * static_cast<double>(layer.v_offset) * pages * 1e-9 / seconds,
              2e-9 * rows * width * (context - rows / 2.0) / seconds, written / context * 1e9);
  std::fflush(stdout);
}

void bench_attention(Ops& ops) {
  std::printf("attention: heads x dim, KV type, context, rows; us, GB/s of KV, GMAC/s; ");
  std::printf("ns to write a token\n");
  for (const AttentionShape& shape : {AttentionShape{32, 8, 64}, {9, 3, 64}, {4, 1, 256}}) {
    for (const int context : {512, 8192}) {
      for (const int rows : {1, 8, 64, 512}) {
        for (const KvType type : {KvType::kF16, KvType::kQ8_0})
          bench_attention(ops, shape, type, context, rows);
      }
    }
  }
}

/// The operations of a small llama (SmolLM2-135M's shape) for `rows` new tokens after an empty
/// context.
class SmallModel {
 public:
  SmallModel(Ops& ops, int rows) : ops_(ops), n_(rows) {
    layer_.n_head_kv = 3;
    layer_.head_dim_k = layer_.head_dim_v = 64;
    layer_.v_offset = 3 * kPageTokens * kv_row_bytes(KvType::kF16, 64);
    group_.page_bytes = 2 * layer_.v_offset;
    pages_.resize(group_.page_bytes * 64);
    group_.base = pages_.data();
    for (uint32_t i = 0; i < 64; ++i) table_.push_back(i);
    tables_[0] = table_;
    sequence_ = {0, rows, 0, tables_};
    for (int i = 0; i < rows; ++i) positions_.push_back(i);
    for (const auto& [out, in] : {std::pair(576, 576),
                                  {192, 576},
                                  {192, 576},
                                  {576, 576},
                                  {1536, 576},
                                  {1536, 576},
                                  {576, 1536}}) {
      for (int l = 0; l < kLayers; ++l) weights_.push_back(matrix("Q4_1", out, in));
    }
    head_ = matrix("Q8_0", 49152, 576);
    norm_ = noise(1536);
    for (Rows* r : {&x_, &h_, &q_, &o_}) *r = rows_of(rows, 576);
    for (Rows* r : {&k_, &v_}) *r = rows_of(rows, 192);
    for (Rows* r : {&gate_, &up_}) *r = rows_of(rows, 1536);
    logits_ = rows_of(1, 49152);
  }

  void step() {
    const KvView kv{KvType::kF16, KvType::kF16, {&group_, 1}, {&layer_, 1}, {&sequence_, 1}};
    const RopeParams rope{.n_rot = 64};
    for (int l = 0; l < kLayers; ++l) {
      const auto w = [&](int i) { return weights_[static_cast<size_t>(i * kLayers + l)]; };
      ops_.rms_norm(h_, x_, norm_.data(), 1e-5f);
      const MatmulJob qkv[] = {{q_, w(0), nullptr}, {k_, w(1), nullptr}, {v_, w(2), nullptr}};
      ops_.matmul(qkv, h_);
      ops_.rope(q_, 9, rope, positions_);
      ops_.rope(k_, 3, rope, positions_);
      ops_.kv_write(kv, 0, k_, v_);
      ops_.attention(o_, q_, kv, 0, {.n_head = 9, .scale = 0.125f});
      const MatmulJob out{h_, w(3), nullptr};
      ops_.matmul({&out, 1}, o_);
      ops_.add(x_, h_);
      ops_.rms_norm(h_, x_, norm_.data(), 1e-5f);
      const MatmulJob ffn[] = {{gate_, w(4), nullptr}, {up_, w(5), nullptr}};
      ops_.matmul(ffn, h_);
      ops_.silu_mul(gate_, up_);
      const MatmulJob down{h_, w(6), nullptr};
      ops_.matmul({&down, 1}, gate_);
      ops_.add(x_, h_);
      ops_.scale(x_, 0.5f);  // keeps random values within their range
    }
    const MatmulJob job{logits_, head_, nullptr};
    ops_.matmul({&job, 1}, {x_.row(n_ - 1), 1, 576, 576});
  }

 private:
  static constexpr int kLayers = 30;
  Matrix matrix(const char* format_name, int rows, int cols) {
    const quant::Format& format = *quant::find_format(format_name);
    const size_t row = static_cast<size_t>(cols) / format.block_values * format.block_bytes;
    std::vector<std::byte>& bytes = memory_.emplace_back(row * static_cast<size_t>(rows));
    format.quantize(noise(static_cast<size_t>(cols)), bytes.data());
    for (size_t r = 1; r < static_cast<size_t>(rows); ++r)
      std::memcpy(&bytes[r * row], bytes.data(), row);
    return {format.type, rows, cols, bytes.data()};
  }
  Rows rows_of(int rows, int width) {
    floats_.push_back(noise(static_cast<size_t>(rows * width)));
    return {floats_.back().data(), rows, width, width};
  }

  Ops& ops_;
  int n_;
  KvLayer layer_;
  KvGroup group_;
  std::vector<std::byte> pages_;
  std::vector<uint32_t> table_;
  std::span<const uint32_t> tables_[1];
  KvSequence sequence_;
  std::vector<int32_t> positions_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::vector<float>> floats_;
  std::vector<Matrix> weights_;
  Matrix head_;
  std::vector<float> norm_;
  Rows x_, h_, q_, o_, k_, v_, gate_, up_, logits_;
};

void bench_model(Ops& ops) {
  for (const int rows : {1, 4, 512}) {
    SmallModel model(ops, rows);
    const double seconds = best_time([&] { model.step(); });
    std::printf("small llama, %3d rows: %8.2f ms, %7.1f tokens/s\n", rows, seconds * 1e3,
                rows / seconds);
  }
}

int run(const Options& options) {
  const auto isa = simd::choose_isa(options.isa);
  if (!isa) {
    std::fprintf(stderr, "%s\n", isa.error().message.c_str());
    return isa.error().exit_code();
  }
  ThreadTeam team(options.threads);
  const auto ops = make_cpu_ops(*isa, team);
  std::printf("isa %s\n", std::string(simd::isa_name(*isa)).c_str());
  print_bandwidth(team);
  std::printf("weights %lld x %lld; GB/s at 1 column, then GMAC/s at 1, 2, 4, 8, 64, 512 columns\n",
              static_cast<long long>(options.rows), static_cast<long long>(options.cols));
  for (const quant::Format& format : quant::formats()) {
    const auto wanted = [&](const std::string& name) { return name == format.name; };
    if (!options.formats.empty() && std::ranges::none_of(options.formats, wanted)) continue;
    if (can_multiply(format.type) && format.quantize != nullptr)
      bench_format(*ops, options, format);
  }
  const auto asked = [&](const char* name) {
    return options.formats.empty() ||
           std::ranges::find(options.formats, name) != options.formats.end();
  };
  if (asked("model")) bench_model(*ops);
  if (asked("attention")) bench_attention(*ops);
  return 0;
}

}  // namespace
}  // namespace ondol::kernels

int main(int argc, char** argv) {
  ondol::kernels::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--isa") options.isa = argv[i + 1];
    if (name == "--threads") options.threads = std::max(1, std::atoi(argv[i + 1]));
    if (name == "--rows") options.rows = std::atoll(argv[i + 1]);
    if (name == "--cols") options.cols = std::atoll(argv[i + 1]);
    if (name == "--clock") ondol::kernels::g_cpu_clock = std::string("cpu") == argv[i + 1];
    if (name == "--format") options.formats.emplace_back(argv[i + 1]);
  }
  return ondol::kernels::run(options);
}
