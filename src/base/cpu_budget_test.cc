#include "base/cpu_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "support/support.h"

namespace ondol {
namespace {

TEST(CpuBudget, ParsesLists) {
  EXPECT_EQ(parse_cpu_list("0-3,8").value(), (std::set<int>{0, 1, 2, 3, 8}));
  for (const char* bad : {"", "a", "3-1", "-1", "0-99999999", "1,,2"})
    EXPECT_FALSE(parse_cpu_list(bad)) << bad;
}

TEST(CpuBudget, ParsesQuotas) {
  EXPECT_EQ(parse_cpu_max("400000 100000"), 4.0);
  for (const char* none : {"", "max 100000", "x y", "400000", "1 0"})
    EXPECT_FALSE(parse_cpu_max(none)) << none;
}

TEST(CpuBudget, ThisMachineHasAtLeastOneThread) { EXPECT_GE(default_threads(cpu_facts()), 1); }

TEST(CpuBudget, SharedCases) {
  const std::string path = test::shared_path("cases/cpu_budget.jsonl");
  if (path.empty()) GTEST_SKIP() << test::kNoShared;
  for (const auto& line : test::read_json_lines(path)) {
    SCOPED_TRACE(std::string(line.at("id").as_string()));
    const auto& in = line.at("input").as_object();
    const auto text = [&](const char* key) { return std::string_view(in.at(key).as_string()); };
    if (in.contains("requested"))
      continue;  // an explicit number is the user's: default_threads is not asked
    CpuFacts facts{.cores = static_cast<int>(in.at("cores").as_int64()),
                   .threads_per_core = static_cast<int>(in.at("threads_per_core").as_int64())};
    if (in.contains("cpuset")) {
      const auto set = parse_cpu_list(text("cpuset")).value();
      const auto mask = in.contains("affinity") ? parse_cpu_list(text("affinity")).value() : set;
      facts.usable_cpus =
          static_cast<int>(std::ranges::count_if(set, [&](int cpu) { return mask.contains(cpu); }));
    }
    if (in.contains("cpu_max"))
      facts.quota_cpus = parse_cpu_max(text("cpu_max")).value_or(facts.quota_cpus);
    if (in.contains("cpu_cfs_quota_us")) {
      facts.quota_cpus = quota_from_cfs(in.at("cpu_cfs_quota_us").as_int64(),
                                        in.at("cpu_cfs_period_us").as_int64())
                             .value_or(facts.quota_cpus);
    }
    EXPECT_EQ(default_threads(facts), line.at("expected").as_object().at("threads").as_int64());
  }
}

}  // namespace
}  // namespace ondol
