// Thread rule: submit, cancel, stop, stats and the constants may be called from any thread; sinks
// are called on the service's own thread, the only one that touches the Engine.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "engine/engine.h"

namespace ondol::engine {

/// What one step did, for those who measure.
struct StepReport {
  double seconds = 0;
  int n_requests = 0;  ///< under way during the step
  int n_tokens = 0;    ///< chosen in it
};

struct ServiceOptions {
  int n_sequences = 1;  ///< requests computed at once, as the engine was opened with
  int max_queue = 256;  ///< requests that may wait besides those
  /// Called after each step, on the service's thread.
  std::function<void(const StepReport&)> on_step;
};

struct ServiceStats {
  int queued = 0;
  int running = 0;
  uint64_t accepted = 0;
  uint64_t refused = 0;
  uint64_t tokens = 0;  ///< chosen since the start
  // As of the last step:
  uint64_t cache_tokens = 0;         ///< computed tokens that are kept for later requests
  uint64_t cache_bytes = 0;          ///< of their pages
  uint64_t cache_evicted_bytes = 0;  ///< given up since the start
  uint64_t parked = 0;               ///< times that a request had to make room and come back later
};

/// Takes the events of one request, in order. The event with a finish reason is the last. Returning
/// false ends the request at once: its work is freed and nothing more is reported.
using Sink = std::function<bool(const Event&)>;

struct Job {
  Request request;
  Sink sink;
};

/// Why requests were not accepted.
struct Refusal {
  enum class Kind : uint8_t {
    kFull,      ///< the queue; try again in `retry_after` seconds
    kTooMany,   ///< more at once than the queue could ever hold
    kStopping,  ///< the service is being stopped
  };
  Kind kind = Kind::kFull;
  int retry_after = 1;
  std::string message;
};

/// An Engine on a thread of its own. Every accepted request ends in exactly one event with a finish
/// reason, unless its sink ended it; a cancelled one in kError with kInterrupted. An error of a
/// step ends the requests under way, not the service.
class Service {
 public:
  Service(Env& env, std::unique_ptr<Engine> engine, ServiceOptions options);
  /// Cancels what is under way.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Accepts all of the jobs or none; their ids, in order. What the engine refuses (an empty
  /// prompt, no room in the context) comes as an event with kError and kUsage.
  std::expected<std::vector<uint64_t>, Refusal> submit(std::vector<Job> jobs);
  /// Takes effect before the next step. An unknown id, or one that has ended, is no error.
  void cancel(uint64_t id);

  enum class Stop : uint8_t {
    kFinish,  ///< answers what was accepted first
    kCancel,  ///< ends it with kInterrupted
  };
  /// Accepts nothing more. Returns at once; the second call may only be stricter.
  void stop(Stop how);
  /// Waits until the thread has ended after stop().
  void join();

  ServiceStats stats() const;
  /// The engine's unchanging parts: file(), tokenizer(), model(), n_ctx(), isa(), threads().
  const Engine& engine() const { return *engine_; }
  const ServiceOptions& options() const { return options_; }

 private:
  struct Pending {
    uint64_t id;
    Job job;
  };
  struct Live {
    uint64_t id;
    Sink sink;
  };
  /// What other threads asked for since the last step.
  struct Commands {
    std::deque<Pending> jobs;
    std::vector<uint64_t> cancelled;
    bool end_all = false;  ///< stop without finishing
    bool done = false;     ///< nothing is left and nothing will come
  };

  void run();
  Commands wait_for_commands();
  void take(Pending pending);
  void step();
  void deliver(const Event& event);
  void end(uint64_t engine_id, Error error);
  void end_all(const Error& error);
  void forget(uint64_t engine_id);
  int retry_after() const;

  Env& env_;
  std::unique_ptr<Engine> engine_;
  const ServiceOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Pending> inbox_;
  std::vector<uint64_t> to_cancel_;
  bool stopping_ = false;
  bool stop_now_ = false;
  uint64_t next_id_ = 1;
  int n_accepted_live_ = 0;  // accepted and not ended
  double seconds_per_request_ = 1;
  std::chrono::steady_clock::time_point last_end_;
  ServiceStats counts_;

  // Of the service's thread alone.
  std::unordered_map<uint64_t, Live> live_;           // by the engine's id
  std::unordered_map<uint64_t, uint64_t> engine_id_;  // by ours

  std::mutex join_mutex_;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace ondol::engine
