#include "base/thread_team.h"

#include <cassert>

namespace ondol {
namespace {

/// About 20 to 50 microseconds: longer than the pause between two operations of a forward pass,
/// much shorter than what would be felt by others on the machine.
constexpr int kSpins = 1000;

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Waits until `value` is no longer `old`: spins for a while, then sleeps.
template <class T>
T wait_for_change(const std::atomic<T>& value, T old) {
  for (int i = 0; i < kSpins; ++i) {
    const T now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    pause_cpu();
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

ThreadTeam::ThreadTeam(int n_threads) : n_threads_(n_threads) {
  assert(n_threads >= 1);
  workers_.reserve(static_cast<size_t>(n_threads - 1));
  try {
    for (int i = 1; i < n_threads; ++i) workers_.emplace_back([this, i] { worker(i); });
  } catch (...) {
    stop();  // those that did start
    throw;
  }
}

ThreadTeam::~ThreadTeam() { stop(); }

void ThreadTeam::stop() {
  stop_ = true;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : workers_) thread.join();
}

void ThreadTeam::start_and_wait(Call call, void* work) {
  if (n_threads_ == 1) {
    call(work, 0, 1);
    return;
  }
  assert(busy_.load(std::memory_order_relaxed) == 0 && "a team does one piece of work at a time");
  call_ = call;
  work_ = work;
  busy_.store(n_threads_ - 1, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  call(work, 0, n_threads_);
  int32_t left = busy_.load(std::memory_order_acquire);
  while (left != 0) left = wait_for_change(busy_, left);
}

void ThreadTeam::worker(int thread) {
  uint32_t seen = 0;
  for (;;) {
    seen = wait_for_change(round_, seen);
    if (stop_) return;
    call_(work_, thread, n_threads_);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace ondol
