// Thread rule: add() from any thread, it never waits for the disk; a thread of its own writes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/env.h"
#include "serve/http_server.h"

namespace ondol::serve {

/// One request as it is recorded.
struct RecordedRequest {
  std::chrono::steady_clock::time_point arrived;
  std::string key;   ///< the name of the API key
  std::string path;  ///< as routed
  std::string body;
  int status = 0;  ///< 0: the client left before it was answered
  AnswerFigures figures;
};

/// Writes requests to a file, one JSON object a line, for replay by `ondol bench serve`. Lines are
/// whole and only ever appended; the file is for its owner alone. Where it cannot be written any
/// more, that is logged once, and recording ends: requests go on.
class Recorder {
 public:
  /// Bytes of requests that may wait to be written; what comes beyond is left out, which is logged
  /// once.
  static constexpr size_t kMaxWaiting = size_t{64} << 20;

  static Result<std::unique_ptr<Recorder>> open(Env& env, const std::string& path);
  /// Writes what waits.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void add(RecordedRequest request);

 private:
  Recorder(Env& env, std::string path, std::unique_ptr<WritableFile> file);
  void run();
  void write(const RecordedRequest& request);

  const std::string path_;
  const std::chrono::steady_clock::time_point started_;
  std::unique_ptr<WritableFile> file_;  // of the thread; null once it has failed

  std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  std::deque<RecordedRequest> waiting_;
  size_t waiting_bytes_ = 0;
  bool left_out_ = false;
  bool ended_ = false;

  std::thread thread_;  // last
};

/// The line of a request, its line break included; `t` is in seconds.
std::string record_line(const RecordedRequest& request, double t);

}  // namespace ondol::serve
