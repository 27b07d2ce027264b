#include "serve/api_keys.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <span>

#include "base/sha256.h"
#include "serve/http_rules.h"

namespace ondol::serve {
namespace {

constexpr uint64_t kMaxFile = uint64_t{1} << 20;
constexpr size_t kMaxKey = 512;
constexpr size_t kMaxName = 64;

std::string digest_of(std::string_view key) {
  Sha256 sha;
  sha.update(std::as_bytes(std::span(key)));
  return sha.finish();
}

std::string_view trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxName && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

bool is_key(std::string_view text) {
  return !text.empty() && text.size() <= kMaxKey &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

bool is_digest(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdefABCDEF") == text.npos;
}

}  // namespace

Result<ApiKeys::Entry> ApiKeys::parse_line(std::string_view line, const std::string& where) {
  const size_t end = line.find_first_of(": \t");
  const std::string_view name = line.substr(0, end);
  if (end == std::string_view::npos || !is_name(name)) {
    return refused(fmt::format(
        "{}: not a key: write NAME:KEY or NAME sha256:HEX, the name of letters, digits, '.', '_' "
        "and '-' (64 at most)",
        where));
  }
  const std::string_view rest = trim(line.substr(end + 1));
  if (line[end] == ':') {
    if (!is_key(rest)) {
      return refused(
          fmt::format("{}: the key of '{}' must be 1 to {} visible ASCII characters without blanks",
                      where, name, kMaxKey));
    }
    return Entry{std::string(name), digest_of(rest), 0};
  }
  constexpr std::string_view kScheme = "sha256:";
  const auto digest = rest.starts_with(kScheme) ? rest.substr(kScheme.size()) : std::string_view();
  if (!is_digest(digest)) {
    return refused(fmt::format(
        "{}: behind the name '{}' must stand sha256: and the 64 hex digits of the key's SHA-256",
        where, name));
  }
  return Entry{std::string(name), lower(digest), 0};
}

Result<ApiKeys> ApiKeys::parse(std::string_view text, const std::string& path) {
  ApiKeys keys;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    const std::string where = fmt::format("{}, line {}", path, number);
    auto entry = parse_line(line, where);
    if (!entry) return propagate(entry);
    entry->line = number;
    for (const Entry& other : keys.entries_) {
      if (other.name == entry->name) {
        return refused(fmt::format("{}: the name '{}' stands in line {} already: use another one",
                                   where, other.name, other.line));
      }
      if (other.digest == entry->digest) {
        return refused(fmt::format("{}: '{}' has the same key as '{}' in line {}: make a new one",
                                   where, entry->name, other.name, other.line));
      }
    }
    keys.entries_.push_back(*std::move(entry));
  }
  if (keys.entries_.empty()) {
    return refused(fmt::format("{}: holds no key: write at least one line NAME:KEY", path));
  }
  return keys;
}

Result<ApiKeys> ApiKeys::load(Env& env, const std::string& path) {
  const auto text = env.read_text(path, kMaxFile);
  if (!text) return propagate(text);
  return parse(*text, path);
}

std::optional<std::string> ApiKeys::find(std::string_view key) const {
  if (!is_key(key)) return std::nullopt;
  const std::string digest = digest_of(key);
  const Entry* found = nullptr;
  // All of them, whichever fits: nothing is learnt from how long it takes.
  for (const Entry& entry : entries_) {
    if (CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0) found = &entry;
  }
  if (found == nullptr) return std::nullopt;
  return found->name;
}

std::string_view bearer_key(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer";
  authorization = trim(authorization);
  if (authorization.size() <= kScheme.size() || authorization[kScheme.size()] != ' ') return {};
  const bool bearer = lower(authorization.substr(0, kScheme.size())) == kScheme;
  return bearer ? trim(authorization.substr(kScheme.size())) : std::string_view();
}

}  // namespace ondol::serve
