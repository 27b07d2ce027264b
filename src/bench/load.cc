#include "bench/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <climits>
#include <cmath>
#include <memory>

#include "bench/load_client.h"
#include "bench/sent_prefixes.h"
#include "bench/streamed_answer.h"

namespace ondol::bench {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

constexpr size_t kMostAtOnce = 4096;  ///< requests under way; an open loop sends no more
constexpr milliseconds kLook{100};    ///< between looks at whether the user stopped it

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

Clock::duration to_duration(double time) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(time));
}

/// One request from its start to its end.
struct Flight {
  explicit Flight(bool keep_text) : answer(keep_text) {}
  StreamedAnswer answer;
  Turn turn;
  Clock::time_point sent;
  double possible_share = 0;
  bool measured = true;
};

/// What went wrong with a request, as a kind; empty where nothing did.
std::string error_kind(const LoadEnd& end, const StreamedAnswer& answer) {
  if (end.not_connected) return "connect";
  if (end.timed_out) return "timeout";
  if (end.status != 0 && end.status != 200) return fmt::format("http_{}", end.status);
  if (!answer.error.empty()) return "stream_error";
  if (!end.problem.empty()) return "broken";
  if (!answer.done && answer.finish.empty()) return "incomplete";
  if (!answer.first) return "empty";
  return {};
}

/// What the server or the client says about it.
std::string error_text(const LoadEnd& end, const StreamedAnswer& answer) {
  if (!answer.error.empty()) return answer.error;
  if (!end.problem.empty()) return end.problem;
  boost::system::error_code wrong;
  const auto value = json::parse(answer.plain, wrong);
  if (!wrong && value.is_object()) {
    const auto* error = value.get_object().if_contains("error");
    if (error != nullptr && error->is_object()) {
      const auto* message = error->get_object().if_contains("message");
      if (message != nullptr && message->is_string()) return std::string(message->get_string());
    }
  }
  return answer.plain.substr(0, 200);
}

class Loader {
 public:
  Loader(Env& env, LoadOptions& options, std::string root, LoadClient& client,
         const std::function<void(int)>& progress, const std::function<bool()>& stop)
      : env_(env),
        options_(options),
        root_(std::move(root)),
        client_(client),
        progress_(progress),
        stop_(stop),
        arrivals_(options.work.seed ^ 0xA881) {}

  Result<void> find_model();
  Result<void> measure_words();
  Result<LoadReport> run();

 private:
  Result<void> send(Turn turn, bool measured);
  void ended(Flight& flight, const LoadEnd& end);
  Result<StreamedAnswer*> ask_alone(Turn turn);
  Result<void> wait_for_all();
  Result<bool> send_next(bool measured);
  Result<void> closed_loop(size_t clients);
  Result<void> open_loop();
  Clock::time_point next_arrival(Clock::time_point last);
  bool may_send(Clock::time_point now) const;
  Result<void> look_around(milliseconds longest);

  Env& env_;
  LoadOptions& options_;
  const std::string root_;
  LoadClient& client_;
  const std::function<void(int)>& progress_;
  const std::function<bool()>& stop_;
  std::unique_ptr<Workload> work_;
  std::optional<Result<std::optional<Turn>>> held_;  // of a recording: not due yet
  std::mt19937_64 arrivals_;
  SentPrefixes sent_;
  LoadReport report_;
  int n_ended_ = 0;
  bool exhausted_ = false;
  Clock::time_point started_;
  std::shared_ptr<Flight> alone_;  // the last request of ask_alone
};

Result<void> Loader::look_around(milliseconds longest) {
  if (stop_()) return fail(ErrorKind::kInterrupted, "interrupted");
  return client_.wait(std::clamp(longest, milliseconds(0), kLook));
}

Result<void> Loader::wait_for_all() {
  while (client_.busy() > 0) {
    if (auto looked = look_around(kLook); !looked) return looked;
  }
  return {};
}

/// The first model that the server lists, where none was named.
Result<void> Loader::find_model() {
  std::string text;
  LoadEnd how;
  auto started = client_.start(
      root_ + "/v1/models", "",
      [&](std::string_view part) { return (text += part).size() < (size_t{1} << 20); },
      [&](const LoadEnd& end) { how = end; });
  if (!started) return started;
  if (auto done = wait_for_all(); !done) return done;
  if (how.status == 0)
    return failed(
        fmt::format("{} cannot be reached ({}): is the server there?", root_, how.problem));
  if (!options_.model.empty()) return {};
  boost::system::error_code wrong;
  const auto value = json::parse(text, wrong);
  if (how.status == 200 && !wrong) {
    const auto* id = value.find_pointer("/data/0/id", wrong);
    if (id != nullptr && id->is_string()) options_.model = id->get_string();
  }
  if (!options_.model.empty()) return {};
  return failed(fmt::format("{}/v1/models answered {} and no model: name one with --model{}", root_,
                            how.status, how.status == 401 ? ", and a key with --api-key" : ""));
}

/// Sends a request that nothing else runs beside.
Result<StreamedAnswer*> Loader::ask_alone(Turn turn) {
  if (auto sent = send(std::move(turn), false); !sent) return propagate(std::move(sent));
  if (auto done = wait_for_all(); !done) return propagate(std::move(done));
  return &alone_->answer;
}

/// How many tokens the served model makes of words, from two prompts of different length that
/// nothing later begins with.
Result<void> Loader::measure_words() {
  constexpr int kFew = 16, kMany = 64;
  std::mt19937_64 random(options_.work.seed ^ 0x9B0BE);
  std::optional<int> counts[2];
  for (const int n : {kFew, kMany}) {
    json::object body{{"max_tokens", 1}, {"temperature", 0}};
    const std::string text = "Words to be counted:" + random_words(random, n - 4);
    const bool chat = options_.work.kind != "completions";
    if (chat) {
      body["messages"] = {json::object{{"role", "user"}, {"content", text}}};
    } else {
      body["prompt"] = text;
    }
    const auto answer =
        ask_alone({.path = chat ? "/v1/chat/completions" : "/v1/completions", .body = body});
    if (!answer) return propagate(answer);
    if (!report_.errors.empty()) {
      const auto& [kind, text_of] = *report_.told.begin();
      return failed(
          fmt::format("the server does not answer a small request ({}): {}", kind, text_of));
    }
    counts[n == kFew ? 0 : 1] = (*answer)->prompt;
  }
  if (!counts[0] || !counts[1] || *counts[1] <= *counts[0]) return {};
  report_.rate.tokens_per_word = (*counts[1] - *counts[0]) / static_cast<double>(kMany - kFew);
  report_.rate.extra_tokens = *counts[0] - kFew * report_.rate.tokens_per_word;
  return {};
}

Result<void> Loader::send(Turn turn, bool measured) {
  auto flight = std::make_shared<Flight>(options_.work.keep_answers);
  flight->measured = measured;
  json::object body = turn.body;
  body["model"] = options_.model;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  flight->turn = std::move(turn);
  const std::string& text = flight->turn.prefix_text;
  if (!text.empty()) {
    flight->possible_share =
        static_cast<double>(sent_.known(text)) / static_cast<double>(text.size());
    sent_.add(text);
  }
  flight->turn.body.clear();
  flight->turn.prefix_text.clear();
  flight->turn.prefix_text.shrink_to_fit();
  std::string bytes = json::serialize(body);
  flight->sent = env_.now();
  if (!measured) alone_ = flight;
  auto started = client_.start(
      root_ + flight->turn.path, std::move(bytes),
      [this, flight](std::string_view part) { return flight->answer.push(part, env_.now()); },
      [this, flight](const LoadEnd& end) { ended(*flight, end); });
  if (!started) return started;
  if (measured) ++report_.n_sent;
  report_.most_at_once = std::max(report_.most_at_once, static_cast<int>(client_.busy()));
  return {};
}

void Loader::ended(Flight& flight, const LoadEnd& end) {
  const auto now = env_.now();
  const StreamedAnswer& answer = flight.answer;
  if (work_) work_->answered(flight.turn.session, answer.text);
  if (const auto kind = error_kind(end, answer); !kind.empty()) {
    ++report_.errors[kind];
    report_.told.try_emplace(kind, error_text(end, answer));
  } else if (flight.measured) {
    LoadSample sample{.ttft_s = seconds(*answer.first - flight.sent),
                      .tpot_s = answer.seconds_per_token().value_or(0),
                      .pause_s = answer.longest_pause,
                      .total_s = seconds(now - flight.sent),
                      .prompt = answer.prompt.value_or(0),
                      .completion = answer.n_tokens(),
                      .cached = answer.cached.value_or(0)};
    // The last token of a prompt is always computed.
    sample.possible = std::min(flight.possible_share * sample.prompt, sample.prompt - 1.0);
    sample.possible = std::max(sample.possible, 0.0);
    report_.samples.push_back(sample);
    report_.cached_known |= answer.cached.has_value();
    report_.prompt_known |= answer.prompt.has_value();
  }
  report_.seconds = seconds(now - started_);
  if (flight.measured) progress_(++n_ended_);
}

/// Sends the next request of the workload; false where there is none.
Result<bool> Loader::send_next(bool measured) {
  auto turn = held_ ? *std::exchange(held_, std::nullopt) : work_->next();
  if (!turn) return propagate(std::move(turn));
  exhausted_ = !*turn;
  if (exhausted_) return false;
  if (auto sent = send(std::move(**turn), measured); !sent) return propagate(std::move(sent));
  return true;
}

bool Loader::may_send(Clock::time_point now) const {
  if (exhausted_ || report_.n_sent >= options_.requests) return false;
  return options_.duration_s <= 0 || seconds(now - started_) < options_.duration_s;
}

Result<void> Loader::closed_loop(size_t clients) {
  while (true) {
    while (client_.busy() < clients && may_send(env_.now())) {
      const auto sent = send_next(true);
      if (!sent) return propagate(sent);
    }
    if (client_.busy() == 0) return {};
    if (auto looked = look_around(kLook); !looked) return looked;
  }
}

/// When the request after one at `last` comes: by a recording's times, or at random.
Clock::time_point Loader::next_arrival(Clock::time_point last) {
  if (options_.rate > 0) {
    const double uniform = static_cast<double>(arrivals_() >> 11) * 0x1p-53;
    return last + to_duration(-std::log1p(-uniform) / options_.rate);
  }
  if (!held_) held_ = work_->next();
  // A broken line is told when its turn comes: at once.
  if (!*held_) return last;
  exhausted_ = !**held_;
  return !exhausted_ && (**held_)->at_s ? started_ + to_duration(*(**held_)->at_s) : last;
}

Result<void> Loader::open_loop() {
  auto due = options_.rate > 0 ? started_ : next_arrival(started_);
  while (true) {
    auto now = env_.now();
    while (may_send(now) && due <= now) {
      if (client_.busy() >= kMostAtOnce) {
        ++report_.errors["not_sent"];
        report_.told.try_emplace("not_sent", fmt::format("{} were under way", kMostAtOnce));
        ++report_.n_sent;
        held_.reset();
      } else if (const auto sent = send_next(true); !sent) {
        return propagate(sent);
      }
      due = next_arrival(due);
      now = env_.now();
    }
    if (!may_send(now)) return wait_for_all();
    const auto until = std::chrono::duration_cast<milliseconds>(due - now) + milliseconds(1);
    if (auto looked = look_around(until); !looked) return looked;
  }
}

Result<LoadReport> Loader::run() {
  if (auto found = find_model(); !found) return propagate(std::move(found));
  started_ = env_.now();
  const auto& kind = options_.work.kind;
  const bool is_file = kind != "chat" && kind != "completions" && kind != "agent";
  if (!is_file) {
    if (auto counted = measure_words(); !counted) return propagate(std::move(counted));
  }
  constexpr int kUsual = 32;
  if (options_.requests == 0)
    options_.requests = is_file || options_.duration_s > 0 ? INT_MAX : kUsual;
  options_.work.rate = report_.rate;
  auto work = Workload::make(env_, options_.work);
  if (!work) return propagate(std::move(work));
  work_ = std::move(*work);
  for (int i = 0; i < options_.warmup; ++i) {
    const auto sent = send_next(false);
    if (!sent) return propagate(sent);
    if (auto done = wait_for_all(); !done) return propagate(std::move(done));
  }
  report_.url = options_.url;
  report_.model = options_.model;
  report_.most_at_once = 0;
  report_.seconds = 0;
  started_ = env_.now();
  const bool recorded = options_.rate <= 0 && options_.clients <= 0 && work_->is_timed();
  const auto done = options_.rate > 0 || recorded
                        ? open_loop()
                        : closed_loop(static_cast<size_t>(std::max(1, options_.clients)));
  if (!done) return propagate(done);
  report_.possible_is_low = sent_.is_full();
  return std::move(report_);
}

}  // namespace

Result<LoadReport> run_load(Env& env, LoadOptions options, const std::function<void(int)>& progress,
                            const std::function<bool()>& stop) {
  auto root = server_root(options.url);
  if (!root) return propagate(std::move(root));
  auto client = LoadClient::make(
      {.api_key = options.api_key,
       .timeout = milliseconds(static_cast<int64_t>(std::ceil(options.timeout_s * 1e3)))});
  if (!client) return propagate(std::move(client));
  // The loader outlives the client's requests: they call it.
  Loader loader(env, options, *std::move(root), **client, progress, stop);
  auto report = loader.run();
  (*client)->abandon();
  return report;
}

}  // namespace ondol::bench
