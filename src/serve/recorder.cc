#include "serve/recorder.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/json.hpp>

#include "tokenizer/utf8.h"

namespace ondol::serve {
namespace {

namespace json = boost::json;

/// A body as a JSON value on one line. Inside its texts a line break cannot stand as such, so those
/// that are there can become blanks.
std::string as_value(const std::string& body) {
  boost::system::error_code wrong;
  json::parse(body, wrong);
  if (wrong) return json::serialize(json::value(tokenizer::replace_ill_formed(body)));
  std::string line = body;
  std::ranges::replace_if(line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return line;
}

}  // namespace

std::string record_line(const RecordedRequest& request, double t) {
  const AnswerFigures& of = request.figures;
  return fmt::format(
      "{{\"t\":{:.6f},\"key\":{},\"path\":{},\"body\":{},\"status\":{},\"prompt_tokens\":{},"
      "\"cached_tokens\":{},\"completion_tokens\":{},\"ttft_ms\":{:.3f}}}\n",
      t, json::serialize(json::value(tokenizer::replace_ill_formed(request.key))),
      json::serialize(json::value(tokenizer::replace_ill_formed(request.path))),
      as_value(request.body), request.status, of.prompt_tokens, of.cached_tokens,
      of.completion_tokens, of.first_token_seconds * 1e3);
}

Result<std::unique_ptr<Recorder>> Recorder::open(Env& env, const std::string& path) {
  auto file = env.open_writable(path, WriteMode::kAppendPrivate);
  if (!file) return propagate(std::move(file));
  // A line that was cut off (the disk was full, the machine stopped) is ended, not continued.
  const auto old = env.info(path);
  if (old && old->size > 0) {
    const auto map = env.map(path);
    constexpr std::byte kEnd{'\n'};
    if (map && !(*map)->bytes().empty() && (*map)->bytes().back() != kEnd) {
      if (auto ended = (*file)->append(std::span(&kEnd, 1)); !ended) return propagate(ended);
    }
  }
  return std::unique_ptr<Recorder>(new Recorder(env, path, std::move(*file)));
}

Recorder::Recorder(Env& env, std::string path, std::unique_ptr<WritableFile> file)
    : path_(std::move(path)),
      started_(env.now()),
      file_(std::move(file)),
      thread_([this] { run(); }) {}

Recorder::~Recorder() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Recorder::add(RecordedRequest request) {
  const std::lock_guard lock(mutex_);
  if (waiting_bytes_ + request.body.size() > kMaxWaiting) {
    if (!std::exchange(left_out_, true))
      spdlog::error("'{}': requests come faster than they can be recorded; some are left out",
                    path_);
    return;
  }
  waiting_bytes_ += request.body.size();
  waiting_.push_back(std::move(request));
  wake_.notify_all();
}

void Recorder::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return ended_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const RecordedRequest request = std::move(waiting_.front());
    waiting_.pop_front();
    waiting_bytes_ -= request.body.size();
    lock.unlock();
    write(request);
    lock.lock();
  }
}

void Recorder::write(const RecordedRequest& request) {
  if (!file_) return;
  const double t = std::chrono::duration<double>(request.arrived - started_).count();
  const std::string line = record_line(request, t);
  const auto written = file_->append(std::as_bytes(std::span(line)));
  if (written) return;
  spdlog::error("{}; requests are recorded no more, but answered as before",
                written.error().message);
  file_.reset();
}

}  // namespace ondol::serve
