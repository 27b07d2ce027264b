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
// Cased letters: upper, lower and title case.
constexpr Pattern kDeepseekLlm[] = {kLineBreak,
                                    R"(\s?[\p{Lu}\p{Ll}\p{Lt}]+)",
                                    R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)",
                                    R"((?<!\s)\s++$)",
                                    kCjk,
                                    kOneDigit};
constexpr Pattern kDeepseekCoder[] = {kLineBreak, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kCjk, kOneDigit};
constexpr Pattern kDeepseekV3[] = {
    kThreeDigits, R"([一-龥぀-ゟ゠-ヿ]+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

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
