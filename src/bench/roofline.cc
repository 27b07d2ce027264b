#include "bench/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <numeric>
#include <string_view>
#include <vector>

#include "base/thread_team.h"

namespace ondol::bench {
namespace {

using Seconds = std::chrono::duration<double>;

/// Four sums, so that the loop waits for memory and not for its own additions.
uint64_t sum_of(const uint64_t* first, size_t count) {
  uint64_t sum[4] = {};
  for (size_t i = 0; i + 4 <= count; i += 4) {
    for (size_t j = 0; j < 4; ++j) sum[j] += first[i + j];
  }
  return sum[0] + sum[1] + sum[2] + sum[3];
}

/// `count` additions, a multiple of 16, one after the other. The empty assembly statement makes the
/// compiler keep each of them, in a register; the addend is a register too, because some cores
/// fold additions of constants.
uint64_t dependent_adds(int count, uint64_t addend) {
  uint64_t sum = addend;
  for (int i = 0; i < count; i += 16) {
#pragma GCC unroll 16
    for (int j = 0; j < 16; ++j) {
      sum += addend;
      asm volatile("" : "+r"(sum), "+r"(addend));
    }
  }
  return sum;
}

}  // namespace

double measure_read_bandwidth(Env& env, int threads) {
  constexpr size_t kBytes = size_t{256} << 20;
  constexpr size_t kCount = kBytes / sizeof(uint64_t);
  constexpr int kPasses = 5;
  const auto buffer = std::make_unique_for_overwrite<uint64_t[]>(kCount);
  const size_t part = kCount / static_cast<size_t>(threads);
  const auto first_of = [&](int thread) {
    return buffer.get() + part * static_cast<size_t>(thread);
  };
  ThreadTeam team(threads);
  team.run([&](int thread, int) { std::fill_n(first_of(thread), part, uint64_t{1}); });
  std::vector<uint64_t> sums(static_cast<size_t>(threads));
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = env.now();
    team.run([&](int thread, int) {
      sums[static_cast<size_t>(thread)] = sum_of(first_of(thread), part);
    });
    const double seconds = Seconds(env.now() - start).count();
    // The sums are looked at, so that the reads cannot be left out.
    if (std::accumulate(sums.begin(), sums.end(), uint64_t{0}) == 0 || seconds <= 0) return 0;
    best = std::max(best, static_cast<double>(kBytes) / seconds / 1e9);
  }
  return best;
}

double measure_clock(Env& env, int threads) {
  constexpr int kPasses = 32;
  ThreadTeam team(threads);
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    std::vector<uint64_t> sums(static_cast<size_t>(threads));
    const auto start = env.now();
    team.run([&](int thread, int) {
      sums[static_cast<size_t>(thread)] = dependent_adds(kClockAdds, 3);
    });
    const double seconds = Seconds(env.now() - start).count();
    if (std::ranges::count(sums, uint64_t{0}) > 0 || seconds <= 0) return 0;
    best = std::max(best, kClockAdds / seconds / 1e9);
  }
  return best;
}

uint64_t peak_memory(Env& env) {
  constexpr std::string_view kKey = "VmHWM:";
  const auto status = env.read_text("/proc/self/status", 1 << 20);
  if (!status) return 0;
  const size_t key = status->find(kKey);
  if (key == std::string::npos) return 0;
  const size_t digits = status->find_first_of("0123456789", key);
  if (digits == std::string::npos) return 0;
  uint64_t kibibytes = 0;
  std::from_chars(status->data() + digits, status->data() + status->size(), kibibytes);
  return kibibytes * 1024;
}

MultiplyAdds multiply_adds(const gguf::File& file) {
  const auto arch = file.get_string("general.architecture", "");
  const auto expert_key = [&](const char* name) {
    return file.get_uint(fmt::format("{}.{}", arch.value_or(""), name), 0).value_or(0);
  };
  const auto experts = static_cast<double>(expert_key("expert_count"));
  const auto used = static_cast<double>(expert_key("expert_used_count"));
  MultiplyAdds result;
  for (const gguf::Tensor& tensor : file.tensors()) {
    const bool is_weight = tensor.name.starts_with("blk.") && tensor.name.ends_with(".weight");
    if (!is_weight || tensor.n_dims < 2) continue;
    const double share = tensor.n_dims == 3 && experts > 0 ? used / experts : 1;
    result.layers += static_cast<double>(tensor.n_values()) * share;
  }
  const gguf::Tensor* head = file.tensor("output.weight");
  if (head == nullptr) head = file.tensor("token_embd.weight");
  if (head != nullptr) result.head = static_cast<double>(head->n_values());
  return result;
}

}  // namespace ondol::bench
