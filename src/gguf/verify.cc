#include "gguf/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <memory>

#include "base/sha256.h"
#include "base/units.h"
#include "gguf/gguf.h"
#include "gguf/text.h"

namespace ondol::gguf {
namespace {

constexpr uint64_t kChunkBytes = 1 << 20;

Result<std::string> normal_sum(std::string_view text) {
  std::string sum(text);
  for (char& c : sum) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  if (sum.size() != 64 || sum.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return usage_error(
        fmt::format("'{}' is no SHA-256 sum: give 64 hexadecimal digits", printable(text)));
  }
  return sum;
}

Result<std::vector<std::string>> expected_sums(const VerifyOptions& options, size_t n_parts) {
  std::vector<std::string> sums;
  for (const std::string& text : options.expected) {
    auto sum = normal_sum(text);
    if (!sum) return propagate(std::move(sum));
    sums.push_back(std::move(*sum));
  }
  if (!sums.empty() && sums.size() != n_parts) {
    return usage_error(fmt::format("{} sums were given for {} parts: give one per part, in order",
                                   sums.size(), n_parts));
  }
  return sums;
}

/// SHA-256 (FIPS 180-4) in hexadecimal; `step` hears of every chunk and may stop it.
Result<std::string> sha256(std::span<const std::byte> bytes,
                           const std::function<bool(uint64_t)>& step) {
  Sha256 sum;
  while (!bytes.empty()) {
    const auto chunk = bytes.first(std::min<size_t>(bytes.size(), kChunkBytes));
    sum.update(chunk);
    bytes = bytes.subspan(chunk.size());
    if (!step(chunk.size())) return fail(ErrorKind::kInterrupted, "stopped while summing the file");
  }
  return sum.finish();
}

}  // namespace

Result<void> Verification::verdict() const {
  for (const PartSum& part : parts) {
    if (part.matches == false) {
      return refused(
          fmt::format("'{}' was refused: its SHA-256 is {}, not the expected one; fetch it again",
                      printable(part.path, 1024), part.sha256));
    }
  }
  if (structure) return std::unexpected(*structure);
  return {};
}

Result<Verification> verify(Env& env, const std::string& path, const VerifyOptions& options) {
  Verification out;
  std::vector<std::string> paths = {path};
  if (auto file = File::open(env, path); file) {
    paths.assign(file->part_paths().begin(), file->part_paths().end());
    out.n_keys = file->metadata().size();
    out.n_tensors = file->tensors().size();
  } else if (file.error().kind == ErrorKind::kRefused) {
    out.structure = file.error();
  } else {
    return propagate(std::move(file));
  }
  const auto expected = expected_sums(options, paths.size());
  if (!expected) return propagate(expected);

  std::vector<std::unique_ptr<MappedFile>> maps;
  uint64_t total = 0;
  for (const std::string& each : paths) {
    auto map = env.map(each);
    if (!map) return propagate(std::move(map));
    total += (*map)->bytes().size();
    maps.push_back(std::move(*map));
  }
  uint64_t done = 0;
  for (size_t i = 0; i < paths.size(); ++i) {
    auto sum = sha256(maps[i]->bytes(), [&](uint64_t bytes) {
      done += bytes;
      return !options.progress || options.progress(done, total);
    });
    if (!sum) return propagate(std::move(sum));
    PartSum part{paths[i], maps[i]->bytes().size(), std::move(*sum)};
    if (!expected->empty()) part.matches = part.sha256 == (*expected)[i];
    out.parts.push_back(std::move(part));
  }
  return out;
}

std::string to_text(const Verification& verification) {
  std::string text;
  for (const PartSum& part : verification.parts) {
    const auto* verdict = !part.matches   ? ""
                          : *part.matches ? "  as expected"
                                          : "  NOT as expected";
    text += fmt::format("{}  {}  ({}){}\n", part.sha256, printable(part.path, 1024),
                        format_size(part.bytes), verdict);
  }
  if (verification.structure) {
    text += fmt::format("structure: broken. {}\n", verification.structure->message);
  } else {
    text += fmt::format("structure: sound ({} keys, {} tensors)\n", verification.n_keys,
                        verification.n_tensors);
  }
  return text;
}

std::string to_json(const Verification& verification) {
  boost::json::array parts;
  for (const PartSum& part : verification.parts) {
    boost::json::object item{
        {"path", to_utf8(part.path)}, {"bytes", part.bytes}, {"sha256", part.sha256}};
    if (part.matches) item["matches"] = *part.matches;
    parts.push_back(std::move(item));
  }
  const auto verdict = verification.verdict();
  boost::json::object out{{"ok", verdict.has_value()}, {"parts", std::move(parts)}};
  if (verification.structure) {
    out["structure"] = {{"ok", false}, {"error", to_utf8(verification.structure->message)}};
  } else {
    out["structure"] = {
        {"ok", true}, {"keys", verification.n_keys}, {"tensors", verification.n_tensors}};
  }
  if (!verdict) out["error"] = to_utf8(verdict.error().message);
  return boost::json::serialize(out);
}

}  // namespace ondol::gguf
