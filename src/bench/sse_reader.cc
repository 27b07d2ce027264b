#include "bench/sse_reader.h"

namespace ondol::bench {

bool SseReader::push(std::string_view bytes) {
  while (!bytes.empty() && !too_large_) {
    if (after_cr_ && bytes.front() == '\n') bytes.remove_prefix(1);
    after_cr_ = false;
    const size_t end = bytes.find_first_of("\r\n");
    line_ += bytes.substr(0, end);
    too_large_ = line_.size() + data_.size() > kMaxEvent;
    if (end == std::string_view::npos || too_large_) break;
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    end_line();
  }
  return !too_large_;
}

void SseReader::end_line() {
  if (line_.empty()) {
    if (has_data_) on_event_(data_);
    data_.clear();
    has_data_ = false;
  } else if (line_ == "data" || line_.starts_with("data:")) {
    std::string_view value = std::string_view(line_).substr(std::min<size_t>(line_.size(), 5));
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  }
  line_.clear();
}

}  // namespace ondol::bench
