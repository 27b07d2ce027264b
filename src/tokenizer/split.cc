#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/split.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <cstdint>

namespace ondol::tokenizer {
namespace {

// White_Space. PCRE2's own \s adds U+180E, and without its "ucp" mode knows ASCII only.
constexpr std::string_view kWhiteSpace =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

std::string spell_out_white_space(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's' && in_class) {
        out.append(kWhiteSpace);
      } else if (escaped == 's' || escaped == 'S') {
        out.append(escaped == 's' ? "[" : "[^").append(kWhiteSpace).append("]");
      } else {
        out.push_back(c);
        out.push_back(escaped);
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out.push_back(c);
  }
  return out;
}

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};

constexpr size_t kJitStackStart = size_t{32} << 10;
constexpr size_t kJitStackLimit = size_t{64} << 20;

}  // namespace

struct Splitter::Pattern {
  std::unique_ptr<pcre2_code, FreeCode> code;
  bool jit = false;
};

struct Splitter::Session::State {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = nullptr;

  State() {
    // A text may be long: the limits that guard against slow patterns are lifted, the patterns
    // being linear.
    pcre2_set_match_limit(context, UINT32_MAX);
    pcre2_set_depth_limit(context, UINT32_MAX);
    pcre2_set_heap_limit(context, UINT32_MAX);
  }
  ~State() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Where the first match in text[from..] lies, if there is one.
  bool match(const Pattern& pattern, std::string_view text, size_t from, size_t& begin,
             size_t& end) {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    int found = PCRE2_ERROR_JIT_STACKLIMIT;
    if (pattern.jit) {
      found = pcre2_jit_match(pattern.code.get(), subject, text.size(), from, 0, data, context);
      if (found == PCRE2_ERROR_JIT_STACKLIMIT && stack == nullptr) {
        stack = pcre2_jit_stack_create(kJitStackStart, kJitStackLimit, nullptr);
        pcre2_jit_stack_assign(context, nullptr, stack);
        found = pcre2_jit_match(pattern.code.get(), subject, text.size(), from, 0, data, context);
      }
    }
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter keeps its state on the heap
      found = pcre2_match(pattern.code.get(), subject, text.size(), from,
                          PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, context);
    }
    if (found < 0) return false;
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data);
    begin = offsets[0];
    end = offsets[1];
    return true;
  }
};

Splitter::Session::Session() : state_(std::make_unique<State>()) {}
Splitter::Session::~Session() = default;

Splitter::Splitter() = default;
Splitter::~Splitter() = default;
Splitter::Splitter(Splitter&&) noexcept = default;
Splitter& Splitter::operator=(Splitter&&) noexcept = default;

Result<Splitter> Splitter::make(std::span<const std::string_view> patterns) {
  Splitter splitter;
  for (const std::string_view source : patterns) {
    const std::string pattern = spell_out_white_space(source);
    int error = 0;
    PCRE2_SIZE offset = 0;
    Pattern compiled;
    compiled.code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                      PCRE2_UTF, &error, &offset, nullptr));
    if (compiled.code == nullptr) {
      std::array<PCRE2_UCHAR, 120> message{};
      pcre2_get_error_message(error, message.data(), message.size());
      return failed(fmt::format("The splitting pattern {} does not compile at {}: {}.", pattern,
                                offset, reinterpret_cast<const char*>(message.data())));
    }
    compiled.jit = pcre2_jit_compile(compiled.code.get(), PCRE2_JIT_COMPLETE) == 0;
    splitter.patterns_.push_back(std::move(compiled));
  }
  return splitter;
}

void Splitter::split(std::string_view text, Session& session, Sink& sink) const {
  if (!text.empty()) split_from(0, text, session, sink);
}

void Splitter::split_from(size_t level, std::string_view text, Session& session, Sink& sink) const {
  if (level == patterns_.size()) return sink.piece(text);
  size_t done = 0;
  size_t from = 0;
  size_t begin = 0;
  size_t end = 0;
  while (from < text.size() && session.state_->match(patterns_[level], text, from, begin, end)) {
    if (end == begin) {  // no pattern of ours matches nothing; if one did, it would cut nowhere
      from = end + 1;
      while (from < text.size() && (static_cast<uint8_t>(text[from]) & 0xC0) == 0x80) ++from;
      continue;
    }
    if (begin > done) split_from(level + 1, text.substr(done, begin - done), session, sink);
    split_from(level + 1, text.substr(begin, end - begin), session, sink);
    done = from = end;
  }
  if (done < text.size()) split_from(level + 1, text.substr(done), session, sink);
}

}  // namespace ondol::tokenizer
