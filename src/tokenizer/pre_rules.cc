// The patterns are those that the models' makers publish with their tokenizers (tokenizer.json,
// tiktoken), written so that every one is linear: no set intersection, and a run that must reach
// the end of the text starts only once.
#include "tokenizer/pre_rules.h"

#include <algorithm>
#include <array>

namespace ondol::tokenizer {
namespace {

using Pattern = std::string_view;

constexpr Pattern kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr Pattern kOneDigit = R"(\p{N})";
constexpr Pattern kThreeDigits = R"(\p{N}{1,3})";

constexpr Pattern kGpt2[] = {kGpt2Words};
constexpr Pattern kDigitsThenGpt2[] = {kOneDigit, kGpt2Words};

// cl100k, digits in groups of up to three.
constexpr Pattern kLlama3[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
// The same with single digits.
constexpr Pattern kQwen2[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
// And with marks as part of the word.
constexpr Pattern kQwen35[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
// o200k.
constexpr Pattern kGpt4o[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Pattern kTekken[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
// Han in pieces of its own; a class without Han is written as what it leaves out.
constexpr Pattern kKimiK2[] = {
    R"([\p{Han}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{Han}]*[^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{Han}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{Han}]+[^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{Han}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Pattern kSeedCoder[] = {
    R"((?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Pattern kBailingMoe[] = {
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"};

constexpr Pattern kLineBreak = R"([\r\n])";
constexpr Pattern kCjk = R"([一-龥ࠀ-一가-퟿]+)";
// The maker's list of letters of alphabets with case (Armenian and Georgian small letters are not
// in it).
constexpr Pattern kDeepseekLlm[] = {
    kLineBreak,
    R"(\s?[A-Za-z)"
    R"(\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293})"
    R"(\x{295}-\x{2af}\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386})"
    R"(\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f})"
    R"(\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba})"
    R"(\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a})"
    R"(\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d})"
    R"(\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4})"
    R"(\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3})"
    R"(\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102}\x{2107})"
    R"(\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d})"
    R"(\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184})"
    R"(\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d})"
    R"(\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-\x{a78e})"
    R"(\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a})"
    R"(\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3}\x{104d8}-\x{104fb})"
    R"(\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}\x{1e900}-\x{1e943})"
    R"(]+)",
    R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)",
    R"((?<!\s)\s++$)",
    kCjk,
    kOneDigit};
constexpr Pattern kDeepseekCoder[] = {kLineBreak, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kCjk, kOneDigit};
// (\p{S} with the symbols of Unicode 15, which older libraries do not know.)
#define ONDOL_SYMBOLS                                                                                                        \
  R"(\p{S}\x{1f6dc}\x{1f774}-\x{1f776}\x{1f77b}-\x{1f77f}\x{1f7d9}\x{1fa75}-\x{1fa77}\x{1fa87}\x{1fa88}\x{1faad}-\x{1faaf})" \
  R"(\x{1fabb}-\x{1fabd}\x{1fabf}\x{1face}\x{1facf}\x{1fada}\x{1fadb}\x{1fae8}\x{1faf7}\x{1faf8})"
constexpr Pattern kDeepseekV3[] = {
    kThreeDigits, R"([一-龥぀-ゟ゠-ヿ]+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P})" ONDOL_SYMBOLS
    R"(]?[\p{L}\p{M}]+| ?[\p{P})" ONDOL_SYMBOLS R"(]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

#undef ONDOL_SYMBOLS

// Punctuation in runs (ASCII's symbols count), words, ASCII digits in threes.
constexpr Pattern kFalcon[] = {R"([\p{P}$+<=>^`|~]+)", kGpt2Words, R"([0-9][0-9][0-9])"};
constexpr Pattern kBloom[] = {R"( ?[^(\s|.,!?…。，、।۔،)]+)"};
constexpr Pattern kViking[] = {R"( ?[^(\s|.,!?…。，、।۔،)]+)", kOneDigit};
constexpr Pattern kChameleon[] = {
    R"(<sentinel:[0-9]+>)",    R"((?:IMGIMG)(?:(?:A|B|C|D|E|F|G|H|I){1,4})Z)",
    R"([\t\n]|    |  )",       kOneDigit,
    R"([\p{P}!-/:-@\[-`{-~])", kGpt2Words};

constexpr PreRule kRules[] = {
    {.name = "a.x-4.0", .patterns = kGpt2},
    {.name = "bailingmoe", .patterns = kBailingMoe},
    {.name = "bloom", .patterns = kBloom},
    {.name = "chameleon", .patterns = kChameleon},
    {.name = "chatglm-bpe", .patterns = kLlama3},
    {.name = "codeshell", .patterns = kDigitsThenGpt2},
    {.name = "command-r", .patterns = kDigitsThenGpt2, .nfc = true},
    {.name = "dbrx", .patterns = kLlama3},
    {.name = "deepseek-coder", .patterns = kDeepseekCoder},
    {.name = "deepseek-llm", .patterns = kDeepseekLlm},
    {.name = "deepseek-r1-qwen", .patterns = kQwen2, .nfc = true},
    {.name = "deepseek-v3", .patterns = kDeepseekV3},
    {.name = "default", .patterns = kGpt2},
    {.name = "exaone", .patterns = kDigitsThenGpt2, .nfc = true},
    {.name = "falcon", .patterns = kFalcon},
    {.name = "falcon3", .patterns = kLlama3, .whole_words_first = true},
    {.name = "glm4", .patterns = kLlama3},
    {.name = "gpt-2", .patterns = kGpt2},
    {.name = "gpt-4o", .patterns = kGpt4o},
    {.name = "gpt3-finnish", .patterns = kBloom},
    {.name = "granite-docling", .patterns = kGpt2},
    {.name = "grok-2", .patterns = kQwen2},
    {.name = "hunyuan", .patterns = kQwen2},
    {.name = "jais", .patterns = kGpt2},
    {.name = "jina-de", .patterns = kGpt2},
    {.name = "jina-es", .patterns = kGpt2},
    {.name = "jina-v1-en", .patterns = kGpt2},
    {.name = "jina-v2-code", .patterns = kGpt2},
    {.name = "jina-v2-de", .patterns = kGpt2},
    {.name = "jina-v2-es", .patterns = kGpt2},
    {.name = "kimi-k2", .patterns = kKimiK2},
    {.name = "lfm2", .patterns = kLlama3, .whole_words_first = true, .adds_bos = true},
    {.name = "llama-bpe", .patterns = kLlama3, .whole_words_first = true, .adds_bos = true},
    {.name = "llama-v3", .patterns = kLlama3, .whole_words_first = true, .adds_bos = true},
    {.name = "llama3", .patterns = kLlama3, .whole_words_first = true, .adds_bos = true},
    {.name = "llama4", .patterns = kGpt4o, .adds_bos = true},
    {.name = "megrez", .patterns = kQwen2, .nfc = true},
    {.name = "mellum", .patterns = kGpt2},
    {.name = "minerva-7b", .patterns = kDigitsThenGpt2},
    {.name = "modern-bert", .patterns = kGpt2, .nfc = true},
    {.name = "mpt", .patterns = kGpt2, .nfc = true},
    {.name = "olmo", .patterns = kGpt2, .nfc = true},
    {.name = "phi-2", .patterns = kGpt2},
    {.name = "pixtral", .patterns = kTekken, .whole_words_first = true, .adds_bos = true},
    {.name = "poro-chat", .patterns = kBloom},
    {.name = "qwen2", .patterns = kQwen2, .nfc = true},
    {.name = "qwen35", .patterns = kQwen35, .nfc = true},
    {.name = "refact", .patterns = kDigitsThenGpt2},
    {.name = "roberta-bpe", .patterns = kGpt2},
    {.name = "seed-coder", .patterns = kSeedCoder},
    {.name = "smaug-bpe", .patterns = kLlama3, .whole_words_first = true},
    {.name = "smollm", .patterns = kDigitsThenGpt2},
    {.name = "stablelm2", .patterns = kQwen2, .nfc = true},
    {.name = "starcoder", .patterns = kDigitsThenGpt2},
    {.name = "tekken", .patterns = kTekken, .whole_words_first = true, .adds_bos = true},
    {.name = "trillion", .patterns = kGpt2},
    {.name = "viking", .patterns = kViking},
};

}  // namespace

const PreRule* find_pre_rule(std::string_view name) {
  const auto* rule = std::find_if(std::begin(kRules), std::end(kRules),
                                  [&](const PreRule& r) { return r.name == name; });
  return rule == std::end(kRules) ? nullptr : rule;
}

}  // namespace ondol::tokenizer
