#include "scheduler/fair_share.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace ondol::scheduler {

double FairShare::least_served() const {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [name, tenant] : tenants_) {
    if (tenant.requests > 0) least = std::min(least, tenant.served);
  }
  return least;
}

void FairShare::enter(std::string_view name) {
  auto found = tenants_.find(name);
  if (found == tenants_.end()) found = tenants_.emplace(std::string(name), Tenant{}).first;
  Tenant& tenant = found->second;
  if (tenant.requests == 0) {
    const double least = least_served();
    if (least < std::numeric_limits<double>::infinity())
      tenant.served = std::max(tenant.served, least);
  }
  ++tenant.requests;
}

void FairShare::leave(std::string_view name) {
  const auto found = tenants_.find(name);
  assert(found != tenants_.end() && found->second.requests > 0);
  if (--found->second.requests > 0) return;
  // Forgets those whom a return would put where the others are; all, where nobody is left.
  const double least = least_served();
  std::erase_if(tenants_, [&](const auto& entry) {
    return entry.second.requests == 0 && entry.second.served <= least;
  });
}

void FairShare::charge(std::string_view name, int n_prompt, int n_answer) {
  const auto found = tenants_.find(name);
  assert(found != tenants_.end());
  found->second.served += kPromptWeight * n_prompt + kAnswerWeight * n_answer;
}

double FairShare::served(std::string_view name) const {
  const auto found = tenants_.find(name);
  return found == tenants_.end() ? 0 : found->second.served;
}

}  // namespace ondol::scheduler
