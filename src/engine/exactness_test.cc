// A token's logits depend on its own sequence and the model file only: random schedules give the
// same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "engine/runner.h"
#include "support/support.h"

namespace ondol::engine {
namespace {

constexpr int kMaxTokens = 96;

struct Schedule {
  int threads;
  int max_rows;
  int max_chunk;
  KvType type;
};

std::vector<int32_t> random_tokens(std::mt19937& random, int n_vocab, int count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (auto& token : tokens)
    token = static_cast<int32_t>(random() % static_cast<uint32_t>(n_vocab));
  return tokens;
}

std::shared_ptr<const model::Model> load(const std::string& name) {
  const auto file = gguf::File::open(Env::real(), test::data_path("models/" + name));
  EXPECT_TRUE(file) << file.error().message;
  auto loaded = model::Model::load(*file);
  EXPECT_TRUE(loaded) << loaded.error().message;
  return std::move(*loaded);
}

std::unique_ptr<Runner> make_runner(const std::shared_ptr<const model::Model>& model,
                                    const Schedule& schedule, simd::Isa isa, int n_sequences) {
  const MemoryShape shape{.n_ctx = kMaxTokens,
                          .n_sequences = n_sequences,
                          .max_rows = schedule.max_rows,
                          .max_chunk = schedule.max_chunk,
                          .type_k = schedule.type,
                          .type_v = schedule.type};
  auto runner = Runner::create(model, shape, isa, schedule.threads);
  EXPECT_TRUE(runner) << runner.error().message;
  return std::move(*runner);
}

using Logits = std::vector<std::vector<float>>;  // one row per position

/// One sequence, one token a pass, one thread: the plainest schedule.
Logits one_by_one(const std::shared_ptr<const model::Model>& model, std::span<const int32_t> tokens,
                  KvType type, simd::Isa isa) {
  const auto runner =
      make_runner(model, {.threads = 1, .max_rows = 1, .max_chunk = 1, .type = type}, isa, 1);
  auto pages = runner->new_sequence();
  Logits rows;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Piece piece{.pages = &pages,
                      .tokens = tokens.subspan(i, 1),
                      .first_pos = static_cast<int>(i),
                      .n_logits = 1};
    const auto logits = runner->run({&piece, 1});
    EXPECT_TRUE(logits);
    rows.emplace_back(logits->row(0), logits->row(0) + logits->width);
  }
  return rows;
}

struct Running {
  kv::SequencePages pages;
  const std::vector<int32_t>* tokens;
  const Logits* expected;
  int done = 0;
};

/// Feeds several sequences in random pieces of a random mix and compares every row.
void run_schedule(std::mt19937& random, const Schedule& schedule, Runner& runner,
                  std::vector<Running>& sequences) {
  while (true) {
    std::vector<Piece> pieces;
    std::vector<Running*> owners;
    int rows = 0;
    for (auto& s : sequences) {
      const int left = std::min({static_cast<int>(s.tokens->size()) - s.done, schedule.max_chunk,
                                 schedule.max_rows - rows});
      if (left <= 0 || random() % 4 == 0) continue;
      const int n = 1 + static_cast<int>(random() % static_cast<uint32_t>(left));
      pieces.push_back({.pages = &s.pages,
                        .tokens = std::span(*s.tokens).subspan(static_cast<size_t>(s.done),
                                                               static_cast<size_t>(n)),
                        .first_pos = s.done,
                        .n_logits = n});
      owners.push_back(&s);
      rows += n;
    }
    const bool all_done = std::ranges::all_of(
        sequences, [](const Running& s) { return s.done == static_cast<int>(s.tokens->size()); });
    if (all_done) return;
    if (pieces.empty()) continue;
    const auto logits = runner.run(pieces);
    ASSERT_TRUE(logits) << logits.error().message;
    int row = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      for (int k = 0; k < pieces[i].n_logits; ++k, ++row) {
        const auto& expected =
            (*owners[i]->expected)[static_cast<size_t>(owners[i]->done) + static_cast<size_t>(k)];
        ASSERT_EQ(std::memcmp(expected.data(), logits->row(row), expected.size() * sizeof(float)),
                  0)
            << "position " << owners[i]->done + k;
      }
      owners[i]->done += pieces[i].n_logits;
    }
  }
}

class Exactness : public testing::TestWithParam<const char*> {};

TEST_P(Exactness, TwoHundredRandomSchedulesGiveTheSameBits) {
  std::mt19937 random(20);
  const auto model = load(GetParam());
  const int n_vocab = model->config().n_vocab;
  const simd::Isa isa = simd::choose_isa("").value();
  const bool whole_blocks = model->config().head_dim_k % 32 == 0;  // what q8_0 needs
  for (const KvType type : {KvType::kF16, whole_blocks ? KvType::kQ8_0 : KvType::kF32}) {
    std::vector<std::vector<int32_t>> texts;
    std::vector<Logits> expected;
    for (int i = 0; i < 4; ++i) {
      texts.push_back(random_tokens(random, n_vocab, 1 + static_cast<int>(random() % kMaxTokens)));
      expected.push_back(one_by_one(model, texts.back(), type, isa));
    }
    for (int round = 0; round < 100; ++round) {
      SCOPED_TRACE(round);
      const Schedule schedule{.threads = 1 + static_cast<int>(random() % 3),
                              .max_rows = 1 + static_cast<int>(random() % 100),
                              .max_chunk = 1 + static_cast<int>(random() % 60),
                              .type = type};
      const int n_sequences = 1 + static_cast<int>(random() % 4);
      const auto runner = make_runner(model, schedule, isa, n_sequences);
      {
        std::vector<Running> sequences;
        for (int i = 0; i < n_sequences; ++i) {
          const size_t text = random() % texts.size();
          sequences.push_back({.pages = runner->new_sequence(),
                               .tokens = &texts[text],
                               .expected = &expected[text]});
        }
        run_schedule(random, schedule, *runner, sequences);
        if (HasFatalFailure()) return;
      }
      ASSERT_TRUE(runner->check_integrity());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Exactness,
                         testing::Values("llama.gguf", "llama-kquants.gguf", "qwen2.gguf",
                                         "qwen3.gguf", "gemma3.gguf"),
                         [](const auto& model_info) {
                           std::string name = model_info.param;
                           std::erase_if(name, [](char c) {
                             return std::isalnum(static_cast<unsigned char>(c)) == 0;
                           });
                           return name;
                         });

}  // namespace
}  // namespace ondol::engine
