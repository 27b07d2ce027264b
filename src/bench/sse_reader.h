// Thread rule: belongs to one stream.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace ondol::bench {

/// Cuts an event stream into the data of its events, however the bytes arrive: lines end in LF, CR
/// or CRLF, several `data:` lines are one text, comments and other fields are left out (HTML
/// standard, section 9.2.6).
class SseReader {
 public:
  /// Called with the data of each event that has some.
  using OnEvent = std::function<void(std::string_view data)>;
  /// The most that one event may hold.
  static constexpr size_t kMaxEvent = size_t{4} << 20;

  explicit SseReader(OnEvent on_event) : on_event_(std::move(on_event)) {}
  /// False once an event was too large; nothing is reported any more.
  bool push(std::string_view bytes);

 private:
  void end_line();

  OnEvent on_event_;
  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool after_cr_ = false;
  bool too_large_ = false;
};

}  // namespace ondol::bench
