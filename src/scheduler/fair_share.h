// Thread rule: one thread (the engine's); no clock in it.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace ondol::scheduler {

/// How much each tenant was served, so that the one who had least goes first: the virtual token
/// counter of Sheng et al., "Fairness in Serving Large Language Models" (arXiv 2401.00588). A
/// tenant without requests saves nothing up: when it comes back it starts no lower than those who
/// are there.
class FairShare {
 public:
  /// A computed token of a prompt counts once; a chosen one takes a pass of its own.
  static constexpr double kPromptWeight = 1;
  static constexpr double kAnswerWeight = 2;

  /// A request of the tenant is there from now on, or has gone.
  void enter(std::string_view tenant);
  void leave(std::string_view tenant);
  /// Tokens computed for a tenant that has a request.
  void charge(std::string_view tenant, int n_prompt, int n_answer);
  /// What the tenant was served so far; only differences mean something.
  double served(std::string_view tenant) const;

 private:
  struct Tenant {
    double served = 0;
    int requests = 0;
  };
  double least_served() const;

  std::map<std::string, Tenant, std::less<>> tenants_;
};

}  // namespace ondol::scheduler
