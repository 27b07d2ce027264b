#include "base/cpu_budget.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

namespace ondol {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::optional<long long> to_number(std::string_view text) {
  long long value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The tightest quota on the way from this process's cgroup to the root (version 2), or that of
/// version 1.
double read_quota() {
  double quota = std::numeric_limits<double>::infinity();
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::")) continue;
    std::string path = line.substr(3);
    while (true) {
      const auto limit = parse_cpu_max(first_line("/sys/fs/cgroup" + path + "/cpu.max"));
      if (limit) quota = std::min(quota, *limit);
      if (path.empty() || path == "/") break;
      path.resize(path.find_last_of('/'));
    }
  }
  const auto cfs_quota = to_number(first_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"));
  const auto cfs_period = to_number(first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
  if (cfs_quota && cfs_period) {
    if (const auto limit = quota_from_cfs(*cfs_quota, *cfs_period)) quota = std::min(quota, *limit);
  }
  return quota;
}

}  // namespace

int default_threads(const CpuFacts& facts) {
  const int per_core = std::max(1, facts.threads_per_core);
  const int usable_cores =
      facts.usable_cpus / per_core + (facts.usable_cpus % per_core != 0 ? 1 : 0);
  int threads = std::min(facts.cores, usable_cores);
  if (facts.quota_cpus < threads) threads = static_cast<int>(std::floor(facts.quota_cpus));
  return std::max(1, threads);
}

Result<std::set<int>> parse_cpu_list(std::string_view text) {
  const auto bad = [&] {
    return usage_error(fmt::format("'{}' is not a list of processors like 0-3,8", text));
  };
  constexpr long long kMaxCpus = 1 << 16;
  std::set<int> cpus;
  std::stringstream parts{std::string(text)};
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t dash = part.find('-');
    const auto first = to_number(std::string_view(part).substr(0, dash));
    const auto last =
        dash == std::string::npos ? first : to_number(std::string_view(part).substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last > kMaxCpus) return bad();
    for (long long cpu = *first; cpu <= *last; ++cpu) cpus.insert(static_cast<int>(cpu));
  }
  if (cpus.empty()) return bad();
  return cpus;
}

std::optional<double> parse_cpu_max(std::string_view text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const auto quota = to_number(text.substr(0, space));
  const auto period = to_number(text.substr(space + 1));
  if (!quota || !period) return std::nullopt;
  return quota_from_cfs(*quota, *period);
}

std::optional<double> quota_from_cfs(long long quota_us, long long period_us) {
  if (quota_us < 0 || period_us <= 0) return std::nullopt;
  return static_cast<double>(quota_us) / static_cast<double>(period_us);
}

CpuFacts cpu_facts() {
  CpuFacts facts;
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) == 0) {
    if (hwloc_topology_load(topology) == 0) {
      facts.cores = std::max(1, hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE));
      const int logical = std::max(1, hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU));
      facts.threads_per_core = std::max(1, logical / facts.cores);
    }
    hwloc_topology_destroy(topology);
  }
  // The kernel's affinity mask already holds the cpuset.
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) == 0)
    facts.usable_cpus = std::max(1, CPU_COUNT(&mask));
  facts.quota_cpus = read_quota();
  return facts;
}

}  // namespace ondol
