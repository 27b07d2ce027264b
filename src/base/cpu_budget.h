// Thread rule: pure functions, but for cpu_facts(), which reads the machine and may be called from
// any thread.
#pragma once

#include <limits>
#include <optional>
#include <set>
#include <string_view>

#include "base/result.h"

namespace ondol {

/// What decides how many threads pay: cores, the processors this process may run on, and the time
/// it may use.
struct CpuFacts {
  int cores = 1;             ///< physical cores of the machine
  int threads_per_core = 1;  ///< SMT
  int usable_cpus =
      std::numeric_limits<int>::max();  ///< logical processors in the cpuset and affinity mask
  double quota_cpus = std::numeric_limits<double>::infinity();  ///< processors' worth of time
                                                                ///< (cgroup quota ÷ period)
};

/// One thread per core that may be used, no more than the quota (rounded down), at least one.
int default_threads(const CpuFacts& facts);

/// Reads "0-3,8" (cpuset, affinity). Usage error where it is not such a list.
Result<std::set<int>> parse_cpu_list(std::string_view text);

/// Reads cgroup v2's cpu.max ("400000 100000", "max 100000") as processors; empty where there is no
/// limit.
std::optional<double> parse_cpu_max(std::string_view text);

/// The same from cgroup v1's two numbers; a quota below zero is no limit.
std::optional<double> quota_from_cfs(long long quota_us, long long period_us);

/// This machine and process.
CpuFacts cpu_facts();

}  // namespace ondol
