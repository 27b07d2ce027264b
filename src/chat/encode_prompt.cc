#include <algorithm>
#include <ranges>
#include <set>

#include "chat/template.h"
#include "ondol_rust.h"

namespace ondol::chat {

using tokenizer::TokenId;

void ControlTokens::Free::operator()(OndolControls* controls) const {
  ondol_controls_free(controls);
}

ControlTokens::ControlTokens(const tokenizer::Tokenizer& tokenizer) {
  for (TokenId id = 0; id < tokenizer.n_tokens(); ++id) {
    const std::string_view text = tokenizer.token_text(id);
    if (tokenizer.kind(id) == tokenizer::TokenKind::kControl && !text.empty()) {
      ids_.emplace(text, id);
    }
  }
  prepare();
}

ControlTokens::ControlTokens(std::unordered_map<std::string, TokenId> ids) : ids_(std::move(ids)) {
  prepare();
}

void ControlTokens::prepare() {
  std::set<size_t, std::greater<>> lengths;
  std::vector<OndolBytes> texts;
  for (const auto& [text, id] : ids_) {
    lengths.insert(text.size());
    first_bytes_.set(static_cast<unsigned char>(text.front()));
    texts.push_back({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
  lengths_.assign(lengths.begin(), lengths.end());
  handle_.reset(ondol_controls_new(texts.data(), texts.size()));
}

ControlTokens::Match ControlTokens::match(std::string_view text, size_t at) const {
  if (!first_bytes_.test(static_cast<unsigned char>(text[at]))) {
    return {};
  }
  for (const size_t length : lengths_) {
    if (length <= text.size() - at) {
      const auto found = ids_.find(std::string(text.substr(at, length)));
      if (found != ids_.end()) {
        return {length, found->second};
      }
    }
  }
  return {};
}

std::vector<TokenId> encode_prompt(const tokenizer::Tokenizer& tokenizer,
                                   const ControlTokens& controls, const Prompt& prompt) {
  const std::string_view text = prompt.text;
  std::vector<TokenId> ids;
  const auto plain = [&](size_t begin, size_t end) {
    if (begin < end) {
      std::ranges::copy(tokenizer.encode(text.substr(begin, end - begin), {}),
                        std::back_inserter(ids));
    }
  };
  size_t begin = 0;
  auto untrusted = prompt.untrusted.begin();
  for (size_t at = 0; at < text.size();) {
    // Ranges may overlap; the ones that end here or before cannot matter any more.
    while (untrusted != prompt.untrusted.end() && untrusted->end <= at) {
      ++untrusted;
    }
    const ControlTokens::Match match = controls.match(text, at);
    bool clashes = false;
    for (auto span = untrusted; span != prompt.untrusted.end() && span->begin < at + match.length;
         ++span) {
      clashes |= at < span->end;
    }
    if (match.length == 0 || clashes) {
      ++at;
      continue;
    }
    plain(begin, at);
    ids.push_back(match.id);
    at += match.length;
    begin = at;
  }
  plain(begin, text.size());
  return ids;
}

}  // namespace ondol::chat
