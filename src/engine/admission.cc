// Who is computed, who waits, and what becomes of pages: the engine's dealings with its memory.
#include <algorithm>

#include "engine/engine.h"

namespace ondol::engine {
namespace {

int whole_pages(size_t n_tokens) { return static_cast<int>(n_tokens) / kPageTokens * kPageTokens; }

PrefixMiss miss(kv::MissReason reason) {
  switch (reason) {
    case kv::MissReason::kNone:
      return PrefixMiss::kNone;
    case kv::MissReason::kNeverSeen:
      return PrefixMiss::kNeverSeen;
    case kv::MissReason::kEvicted:
      return PrefixMiss::kEvicted;
    case kv::MissReason::kWindow:
      return PrefixMiss::kWindow;
  }
  return PrefixMiss::kNone;
}

}  // namespace

bool Engine::caches(const Task& task) const {
  return options_.prefix_cache && task.request.use_cache;
}

scheduler::RequestState Engine::state_of(const Task& task) const {
  return {.n_pending = static_cast<int>(task.tokens.size()) - task.n_computed,
          .priority = task.request.priority,
          .served = share_.served(task.request.tenant)};
}

std::vector<scheduler::RequestState> Engine::active_states() const {
  std::vector<scheduler::RequestState> states;
  for (const auto& a : active_) states.push_back(state_of(*a));
  return states;
}

void Engine::admit() {
  if (waiting_.empty() || !has_slot()) return;
  std::vector<scheduler::RequestState> states;
  for (const auto& task : waiting_) states.push_back(state_of(*task));
  for (const size_t i : scheduler::turn_order(states)) {
    if (!has_slot()) break;
    if (prefix_is_coming(*waiting_[i])) continue;
    if (!take_up(*waiting_[i])) break;  // pages are short: nobody overtakes
    const uint64_t id = waiting_[i]->id;
    active_.insert(std::ranges::upper_bound(active_, id, {}, &Task::id), std::move(waiting_[i]));
  }
  std::erase(waiting_, nullptr);
}

bool Engine::has_slot() const { return active_.size() < static_cast<size_t>(options_.n_sequences); }

/// Whether another request is computing pages that this one begins with: it waits for these.
bool Engine::prefix_is_coming(Task& task) const {
  if (!caches(task)) return false;
  for (const auto& other : active_) {
    if (other->id == task.awaits && other->n_computed < task.awaits_tokens) return true;
  }
  task.awaits = 0;
  for (const auto& other : active_) {
    if (!caches(*other) || other->request.tenant != task.request.tenant) continue;
    const auto differ = std::ranges::mismatch(other->tokens, task.tokens).in2;
    const auto common = static_cast<size_t>(differ - task.tokens.begin());
    const int shared = whole_pages(std::min(common, task.tokens.size() - 1));
    if (other->n_computed >= shared) continue;
    if (cache_->look(task.request.tenant, task.tokens).n_tokens + kPageTokens > shared) continue;
    task.awaits = other->id;
    task.awaits_tokens = shared;
    return true;
  }
  return false;
}

/// Gives a request its pages; false where it would soon lack some, unless it is the only one.
bool Engine::take_up(Task& task) {
  // One for which pages were short is looked at again when another has ended.
  if (!active_.empty() && task.no_room_at == n_ended_) return false;
  std::optional<kv::Match> match;
  if (caches(task)) {
    auto taken = cache_->take(task.request.tenant, task.tokens);
    task.pages.emplace(std::move(taken.pages));
    task.n_computed = taken.n_tokens;
    match = std::move(taken.match);
  } else {
    task.pages.emplace(runner_->new_sequence());
    task.n_computed = 0;
  }
  if (!active_.empty() && !fits_beside_others(task)) {
    task.pages.reset();
    task.n_computed = 0;
    task.no_room_at = n_ended_;
    return false;
  }
  task.n_published = task.n_computed;
  if (task.n_cached < 0) {
    task.n_cached = task.n_computed;
    remember(task, match);
  }
  return true;
}

/// Keeps what explain() tells.
void Engine::remember(const Task& task, const std::optional<kv::Match>& match) {
  constexpr size_t kRemembered = 1000;
  Explanation about{.request = task.id,
                    .n_prompt = static_cast<int>(task.request.prompt.size()),
                    .n_cached = task.n_cached,
                    .miss = PrefixMiss::kOff};
  if (match) {
    about.n_known = match->n_seen;
    about.miss = miss(match->reason);
  }
  explanations_.push_back(about);
  if (explanations_.size() > kRemembered) explanations_.pop_front();
}

std::optional<Explanation> Engine::explain(uint64_t request) const {
  const auto found = std::ranges::find(explanations_, request, &Explanation::request);
  return found == explanations_.end() ? std::nullopt : std::optional(*found);
}

bool Engine::fits_beside_others(const Task& task) const {
  const auto groups = runner_->groups();
  const int n = static_cast<int>(task.tokens.size()) + 1;
  std::vector<uint32_t> needs;
  for (size_t g = 0; g < groups.size(); ++g) {
    const int reach = groups[g].window == 0 ? n : std::min(n, task.n_computed + options_.max_chunk);
    needs.push_back(task.pages->missing(static_cast<int>(g), reach));
  }
  return cache_->has_room(needs);
}

std::vector<scheduler::Slice> Engine::schedule() {
  while (true) {
    auto plan = scheduler::plan_step(
        active_states(), {.max_rows = options_.max_rows, .max_chunk = options_.max_chunk});
    // One alone fits: submit() saw to it.
    if (make_room(plan) || active_.size() <= 1) return plan;
    park_one();
  }
}

/// Whether the pools have the pages that a plan takes, after evicting what is worth least.
bool Engine::make_room(std::span<const scheduler::Slice> plan) {
  std::vector<uint32_t> needs(runner_->groups().size(), 0);
  for (const auto& slice : plan) {
    Task& a = *active_[slice.request];
    a.pages->drop_behind(a.n_computed);
    for (size_t g = 0; g < needs.size(); ++g)
      needs[g] += a.pages->missing(static_cast<int>(g), a.n_computed + slice.n_rows);
  }
  return cache_->make_room(needs);
}

/// One request gives its pages to the cache and waits again, with what it has said.
void Engine::park_one() {
  const auto which =
      active_.begin() + static_cast<std::ptrdiff_t>(scheduler::gives_way(active_states()));
  auto task = std::move(*which);
  active_.erase(which);
  leave_to_cache(*task);
  task->pages.reset();
  task->n_computed = 0;
  task->no_room_at = n_ended_;
  ++n_parked_;
  const auto place = std::ranges::upper_bound(waiting_, task->id, {}, &Task::id);
  waiting_.insert(place, std::move(task));
}

/// Charges for what was just computed, and makes it known in whole pages.
void Engine::publish(std::span<const scheduler::Slice> plan) {
  for (const auto& slice : plan) {
    Task& a = *active_[slice.request];
    const auto n_prompt = static_cast<int>(a.request.prompt.size());
    const bool answers = a.n_computed > n_prompt;
    share_.charge(a.request.tenant, answers ? 0 : slice.n_rows, answers ? slice.n_rows : 0);
    const int whole = whole_pages(static_cast<size_t>(a.n_computed));
    if (!caches(a) || whole == a.n_published) continue;
    // Others may go on from where a prompt ends: a question asked again, another answer.
    const bool ends = a.n_computed >= n_prompt && a.n_computed - slice.n_rows < n_prompt;
    cache_->publish(a.request.tenant, std::span(a.tokens).first(static_cast<size_t>(whole)),
                    *a.pages, ends);
    a.n_published = whole;
  }
}

/// Makes known all that a request has computed; it will not go on.
void Engine::leave_to_cache(Task& task) {
  if (!caches(task) || task.n_computed == 0) return;
  cache_->publish(task.request.tenant,
                  std::span(task.tokens).first(static_cast<size_t>(task.n_computed)), *task.pages,
                  true);
}

void Engine::cancel(uint64_t request) {
  const auto is = [&](const auto& task) { return task->id == request; };
  if (const auto found = std::ranges::find_if(waiting_, is); found != waiting_.end()) {
    share_.leave((*found)->request.tenant);
    waiting_.erase(found);
  } else if (const auto running = std::ranges::find_if(active_, is); running != active_.end()) {
    leave_to_cache(**running);
    share_.leave((*running)->request.tenant);
    active_.erase(running);
    ++n_ended_;
  }
}

void Engine::clear_cache() { cache_->tree().clear(); }

Result<void> Engine::check_integrity() const {
  if (auto whole = runner_->check_integrity(); !whole) return whole;
  return cache_->tree().check_integrity();
}

}  // namespace ondol::engine
