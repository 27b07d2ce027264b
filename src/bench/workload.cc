#include "bench/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <deque>

namespace ondol::bench {
namespace {

namespace json = boost::json;

constexpr std::string_view kChat = "/v1/chat/completions";
constexpr std::string_view kCompletions = "/v1/completions";

// Short and common: most vocabularies have each of them, with its blank, as one token.
constexpr std::array<std::string_view, 96> kWords = {
    "time",  "people",   "way",   "water",  "words", "day",    "part",    "number", "sound",
    "work",  "place",    "year",  "back",   "thing", "name",   "line",    "world",  "land",
    "home",  "hand",     "page",  "letter", "point", "mother", "answer",  "study",  "plant",
    "food",  "sun",      "state", "eye",    "tree",  "farm",   "story",   "sea",    "night",
    "life",  "north",    "book",  "paper",  "music", "river",  "car",     "feet",   "side",
    "girl",  "mountain", "list",  "song",   "color", "large",  "big",     "high",   "small",
    "old",   "right",    "still", "great",  "long",  "little", "make",    "like",   "look",
    "write", "go",       "see",   "find",   "give",  "think",  "say",     "help",   "turn",
    "move",  "live",     "show",  "play",   "run",   "read",   "need",    "open",   "with",
    "from",  "under",    "over",  "near",   "after", "before", "between", "about",  "into",
    "red",   "green",    "blue",  "white",  "black", "first"};

/// The settings that every generated request has.
json::object new_body(const WorkloadOptions& options) {
  json::object body{{"max_tokens", options.max_tokens}, {"temperature", 0}};
  if (options.ignore_eos) body["ignore_eos"] = true;
  return body;
}

json::object message(std::string_view role, std::string_view content) {
  return {{"role", role}, {"content", content}};
}

/// Requests that have nothing to do with each other, but for a common beginning.
class Singles : public Workload {
 public:
  explicit Singles(const WorkloadOptions& options)
      : options_(options), random_(options.seed), chat_(options.kind == "chat") {
    std::mt19937_64 common(options.seed ^ 0xC0FFEE);
    if (options.shared_prefix > 0)
      shared_ = random_words(common, options.rate.words(options.shared_prefix, false));
  }

  Result<std::optional<Turn>> next() override {
    const int own = std::max(1, options_.prompt_tokens - options_.shared_prefix);
    // A number first: no two prompts begin alike by chance.
    std::string text = fmt::format("{:06}", random_() % 1'000'000);
    text += random_words(random_, options_.rate.words(own, true));
    Turn turn{.path = std::string(chat_ ? kChat : kCompletions), .body = new_body(options_)};
    if (chat_) {
      json::array messages;
      if (!shared_.empty()) messages.push_back(message("system", shared_));
      messages.push_back(message("user", text));
      turn.body["messages"] = std::move(messages);
    } else {
      turn.body["prompt"] = shared_ + " " + text;
    }
    turn.prefix_text = prefix_text(turn.body);
    return turn;
  }
  void answered(size_t, std::string_view) override {}

 private:
  const WorkloadOptions options_;
  std::mt19937_64 random_;
  const bool chat_;
  std::string shared_;
};

/// Agents that work with tools, in turn: the same long instructions for all, then a task, calls and
/// what they returned. A conversation that has had its turns makes room for a new one.
class Agents : public Workload {
 public:
  explicit Agents(const WorkloadOptions& options) : options_(options) {
    std::mt19937_64 common(options.seed ^ 0xA6E27);
    instructions_ = tools();
    const int words = options.rate.words(options.shared_prefix, false);
    const int told = static_cast<int>(std::ranges::count(instructions_, ' '));
    instructions_ += random_words(common, std::max(1, words - told));
  }

  Result<std::optional<Turn>> next() override {
    size_t session = 0;
    if (idle_.empty()) {
      session = n_started_++;
      sessions_.push_back(std::make_unique<Session>(session, options_.seed));
    } else {
      session = idle_.front();
      idle_.pop_front();
    }
    Session& agent = *sessions_[session];
    const int words = options_.rate.words(options_.prompt_tokens, false);
    if (agent.messages.empty()) agent.messages.push_back(message("system", instructions_));
    const std::string_view what = agent.turn == 0 ? "Task" : "Result of the call";
    agent.messages.push_back(message("user", fmt::format("{} {}-{}:{}", what, session, agent.turn,
                                                         random_words(agent.random, words))));
    Turn turn{.path = std::string(kChat), .body = new_body(options_), .session = session};
    turn.body["messages"] = agent.messages;
    turn.prefix_text = prefix_text(turn.body);
    return turn;
  }

  void answered(size_t session, std::string_view text) override {
    Session& agent = *sessions_[session];
    if (++agent.turn >= options_.turns) {
      sessions_[session].reset();
      return;
    }
    std::string said =
        fmt::format("{{\"tool\": \"{}\", \"arguments\": {{\"text\": \"{}\"}}}}",
                    kTools[agent.random() % kTools.size()], random_words(agent.random, 12));
    if (options_.keep_answers) said = text;
    agent.messages.push_back(message("assistant", said));
    idle_.push_back(session);
  }

 private:
  struct Session {
    Session(size_t number, uint64_t seed) : random(seed * 1'000'003 + number) {}
    std::mt19937_64 random;
    json::array messages;
    int turn = 0;
  };
  static constexpr std::array<std::string_view, 4> kTools = {"read_file", "write_file", "search",
                                                             "run"};
  static std::string tools() {
    std::string text = "You are an agent that works with tools. The tools are:";
    for (const std::string_view tool : kTools) {
      text += fmt::format(
          "\n{{\"name\": \"{}\", \"parameters\": {{\"type\": \"object\", \"properties\": "
          "{{\"text\": "
          "{{\"type\": \"string\"}}}}, \"required\": [\"text\"]}}}}",
          tool);
    }
    return text + "\nYour instructions:";
  }

  const WorkloadOptions options_;
  std::string instructions_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::deque<size_t> idle_;
  size_t n_started_ = 0;
};

/// Requests from a file: one JSON object a line, as `serve --record` writes them, as OpenAI's
/// batches have them, or bodies as such.
class Replay : public Workload {
 public:
  Replay(std::unique_ptr<MappedFile> file, const WorkloadOptions& options)
      : options_(options), file_(std::move(file)) {
    const auto bytes = file_->bytes();
    std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (size_t number = 1; !rest.empty(); ++number) {
      const size_t end = rest.find('\n');
      const bool whole = end != std::string_view::npos;
      const std::string_view text = rest.substr(0, end);
      rest.remove_prefix(whole ? end + 1 : rest.size());
      if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      const double before = lines_.empty() ? 0 : lines_.back().t;
      const auto t = time_of(text);
      timed_ = t && (timed_ || lines_.empty());
      lines_.push_back({.t = t.value_or(before), .number = number, .whole = whole, .text = text});
    }
    // Lines are written when requests end; they are sent in the order in which they came.
    if (timed_) {
      std::ranges::sort(lines_, {},
                        [](const Line& line) { return std::pair(line.t, line.number); });
    }
  }

  Result<std::optional<Turn>> next() override {
    while (next_ < lines_.size()) {
      auto turn = read(lines_[next_++]);
      if (!turn) return propagate(std::move(turn));
      if (*turn) return turn;
    }
    return std::nullopt;
  }
  void answered(size_t, std::string_view) override {}
  bool is_timed() const override { return timed_; }

 private:
  struct Line {
    double t = 0;
    size_t number = 0;
    bool whole = true;  ///< its line break is there
    std::string_view text;
  };
  /// The time that a recorded line begins with.
  static std::optional<double> time_of(std::string_view text) {
    constexpr std::string_view kStart = "{\"t\":";
    if (!text.starts_with(kStart)) return std::nullopt;
    double t = 0;
    const auto [end, code] =
        std::from_chars(text.data() + kStart.size(), text.data() + text.size(), t);
    return code == std::errc() ? std::optional(t) : std::nullopt;
  }
  std::unexpected<Error> wrong(const Line& line, std::string_view what) const {
    return refused(
        fmt::format("{} line {}: {}; each line is a request's body, or a line of `serve --record` "
                    "or of a batch",
                    file_->path(), line.number, what));
  }
  /// Nothing for a recorded request of another kind, one whose body was no JSON, and a last line
  /// that was cut off.
  Result<std::optional<Turn>> read(const Line& line) const {
    boost::system::error_code error;
    const auto value = json::parse(line.text, error);
    const auto* object = error ? nullptr : value.if_object();
    if (error && !line.whole) return std::nullopt;
    if (object == nullptr) return wrong(line, "this is no JSON object");
    Turn turn;
    if (timed_) turn.at_s = line.t;
    const json::object* body = object;
    if (const auto* inner = object->if_contains("body")) {
      body = inner->if_object();
      const auto* path = object->if_contains("path");
      if (path == nullptr) path = object->if_contains("url");
      if (path != nullptr && path->is_string()) turn.path = path->get_string();
      if (body == nullptr) return std::nullopt;
    }
    const bool chat = body->contains("messages");
    if (!chat && !body->contains("prompt")) {
      if (!turn.path.empty()) return std::nullopt;
      return wrong(line, "there is neither `messages` nor `prompt`");
    }
    if (turn.path.empty()) turn.path = chat ? kChat : kCompletions;
    if (turn.path != kChat && turn.path != kCompletions) return std::nullopt;
    turn.body = *body;
    turn.body.erase("model");
    if (options_.ignore_eos) turn.body["ignore_eos"] = true;
    turn.prefix_text = prefix_text(turn.body);
    return turn;
  }

  const WorkloadOptions options_;
  std::unique_ptr<MappedFile> file_;
  std::vector<Line> lines_;
  size_t next_ = 0;
  bool timed_ = false;
};

void append_ids(std::string& text, const json::array& ids) {
  for (const auto& id : ids) {
    const auto number = static_cast<uint32_t>(id.is_int64() ? id.get_int64() : 0);
    for (int shift = 0; shift < 32; shift += 8) text += static_cast<char>(number >> shift & 0xFF);
  }
}

void append_prompt(std::string& text, const json::value& prompt) {
  if (prompt.is_string()) text += prompt.get_string();
  if (!prompt.is_array()) return;
  const auto& parts = prompt.get_array();
  if (!parts.empty() && parts.front().is_number()) return append_ids(text, parts);
  // Several prompts: the first counts, as a server reads it first.
  if (!parts.empty()) append_prompt(text, parts.front());
}

}  // namespace

std::string prefix_text(const json::object& body) {
  std::string text;
  if (const auto* prompt = body.if_contains("prompt")) append_prompt(text, *prompt);
  if (const auto* tools = body.if_contains("tools")) text += json::serialize(*tools);
  const auto* messages = body.if_contains("messages");
  if (messages == nullptr || !messages->is_array()) return text;
  for (const auto& entry : messages->get_array()) {
    const auto* one = entry.if_object();
    if (one == nullptr) continue;
    const auto* role = one->if_contains("role");
    if (role != nullptr && role->is_string()) text += role->get_string();
    text += '\n';
    const auto* content = one->if_contains("content");
    if (content != nullptr && content->is_string()) text += content->get_string();
    if (content != nullptr && content->is_array()) text += json::serialize(*content);
    if (const auto* calls = one->if_contains("tool_calls")) text += json::serialize(*calls);
    text += '\n';
  }
  return text;
}

int WordRate::words(int tokens, bool with_extra) const {
  const double wanted = tokens - (with_extra ? extra_tokens : 0);
  return std::max(1, static_cast<int>(std::lround(wanted / tokens_per_word)));
}

std::string random_words(std::mt19937_64& random, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += ' ';
    text += kWords[random() % kWords.size()];
  }
  return text;
}

Result<std::unique_ptr<Workload>> Workload::make(Env& env, const WorkloadOptions& options) {
  if (options.kind == "chat" || options.kind == "completions")
    return std::make_unique<Singles>(options);
  if (options.kind == "agent") return std::make_unique<Agents>(options);
  auto file = env.map(options.kind);
  if (!file) {
    return usage_error(fmt::format(
        "--workload is chat, completions, agent or a file of requests ({})", file.error().message));
  }
  return std::make_unique<Replay>(std::move(*file), options);
}

}  // namespace ondol::bench
