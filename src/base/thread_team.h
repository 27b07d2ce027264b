// Thread rule: one thread calls run and parallel_for at a time, and not from within the work
// itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace ondol {

/// Threads that stay alive and work together on one piece of work at a time. The caller is thread 0
/// of the team; the others wait for work spinning for some tens of microseconds, then sleep.
class ThreadTeam {
 public:
  /// A team of n_threads >= 1, the caller included: one thread means no other is started and all
  /// work runs inline. std::system_error where the system gives no more threads.
  explicit ThreadTeam(int n_threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  /// Threads that work, the caller among them.
  int size() const { return n_threads_; }

  /// Calls work(thread, n_threads) once on every thread and returns when all are done. What the
  /// caller wrote before is seen by the work, and what the work wrote is seen after. Work must not
  /// throw.
  template <class Work>
  void run(Work&& work) {
    using Plain = std::remove_reference_t<Work>;
    start_and_wait([](void* w, int thread, int n) { (*static_cast<Plain*>(w))(thread, n); },
                   address_of(work));
  }

  /// Calls work(i, thread) for every i in [0, count); the next free thread takes the next i. A
  /// single item, or a team of one, runs inline.
  template <class Work>
  void parallel_for(int64_t count, Work&& work) {
    if (n_threads_ == 1 || count <= 1) {
      for (int64_t i = 0; i < count; ++i) work(i, 0);
      return;
    }
    next_.store(0, std::memory_order_relaxed);
    run([&](int thread, int) {
      for (;;) {
        const int64_t i = next_.fetch_add(1, std::memory_order_relaxed);
        if (i >= count) return;
        work(i, thread);
      }
    });
  }

 private:
  using Call = void (*)(void* work, int thread, int n_threads);

  template <class T>
  static void* address_of(T& value) {
    return const_cast<void*>(static_cast<const void*>(std::addressof(value)));
  }
  void start_and_wait(Call call, void* work);
  void worker(int thread);
  void stop();

  int n_threads_;
  Call call_ = nullptr;  // written before round_ grows, read by the workers after
  void* work_ = nullptr;
  bool stop_ = false;
  alignas(64) std::atomic<uint32_t> round_{0};  // grows by one with every piece of work
  alignas(64) std::atomic<int32_t> busy_{0};    // workers that have not finished this round
  alignas(64) std::atomic<int64_t> next_{0};    // of parallel_for
  std::vector<std::thread> workers_;
};

}  // namespace ondol
