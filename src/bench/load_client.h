// Thread rule: a LoadClient belongs to one thread; its callbacks come on it, inside wait().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ondol::bench {

/// How one request ended. `problem` is empty where the whole answer came, whatever its status.
struct LoadEnd {
  long status = 0;  ///< 0: no answer at all
  std::string problem;
  bool timed_out = false;
  bool not_connected = false;
};

struct LoadClientOptions {
  std::string api_key;  ///< empty: none is sent
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds timeout{600'000};  ///< of a request as a whole
};

/// Many HTTP requests at once from one thread; connections are kept and used again.
class LoadClient {
 public:
  /// Called with parts of the body as they come in; false ends the request.
  using OnData = std::function<bool(std::string_view)>;
  using OnEnd = std::function<void(const LoadEnd&)>;

  static Result<std::unique_ptr<LoadClient>> make(LoadClientOptions options);
  virtual ~LoadClient() = default;
  /// Sends a POST with a JSON body, or a GET where the body is empty. kFailed where the address
  /// cannot be used.
  virtual Result<void> start(const std::string& url, std::string body, OnData on_data,
                             OnEnd on_end) = 0;
  /// Moves bytes until something ended or `longest` has passed. Ended requests have been reported.
  virtual Result<void> wait(std::chrono::milliseconds longest) = 0;
  /// Requests under way.
  virtual size_t busy() const = 0;
  /// Ends all that is under way, without a report.
  virtual void abandon() = 0;
};

/// The address of a server as users type it, without "/v1" and what follows: "http://host:8080/v1/"
/// becomes "http://host:8080". Usage error for what is no http or https address.
Result<std::string> server_root(std::string_view url);

}  // namespace ondol::bench
