// Thread rule: one thread; the kernels' team works inside run().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/thread_team.h"
#include "engine/memory.h"
#include "kernels/ops.h"
#include "kv/sequence.h"
#include "model/model.h"
#include "simd/isa.h"

namespace ondol::engine {

/// Consecutive tokens of one sequence in a pass. Positions [0, first_pos) were computed before.
struct Piece {
  kv::SequencePages* pages = nullptr;
  std::span<const int32_t> tokens;
  int first_pos = 0;
  int n_logits = 0;  ///< logits of the last n_logits rows are wanted
};

/// The model with its pages and threads: turns page ids into a KvView and runs forward passes.
class Runner {
 public:
  /// kNoMemory where the pages cannot be reserved or the threads not started.
  static Result<std::unique_ptr<Runner>> create(std::shared_ptr<const model::Model> model,
                                                const MemoryShape& shape, simd::Isa isa,
                                                int threads);

  /// An empty sequence over the runner's page pools, which it must not outlive.
  kv::SequencePages new_sequence() { return kv::SequencePages(groups_, kPageTokens); }

  /// The pools, for whoever shares pages between sequences.
  std::span<kv::Group> groups() { return groups_; }
  /// Copies a page's bytes to another of the same group.
  void copy_page(int group, kv::PageId from, kv::PageId to);
  /// Tokens of the longest sequence that the pools can hold alone.
  int capacity() const;

  /// One forward pass over a mixed batch. The logits [sum of n_logits, n_vocab], in the order of
  /// the pieces, are valid until the next call. kNoMemory where the pages do not suffice: nothing
  /// was computed then.
  Result<kernels::Rows> run(std::span<const Piece> pieces);

  const model::Model& model() const { return *model_; }
  int threads() const { return team_.size(); }
  /// Whether every pool's books agree (tests, idle time).
  Result<void> check_integrity() const;

 private:
  Runner(std::shared_ptr<const model::Model> model, const MemoryShape& shape,
         std::vector<kv::Group> groups, simd::Isa isa, int threads);
  Result<void> prepare(std::span<const Piece> pieces);

  std::shared_ptr<const model::Model> model_;
  MemoryShape shape_;
  ThreadTeam team_;
  std::unique_ptr<kernels::Ops> ops_;
  std::vector<kv::Group> groups_;
  std::vector<KvGroup> kv_groups_;
  std::vector<KvLayer> kv_layers_;
  model::Workspace workspace_;
  std::vector<float> logits_;
  // The batch under way.
  std::vector<int32_t> tokens_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> logit_rows_;
  std::vector<KvSequence> sequences_;
  std::vector<std::vector<std::span<const uint32_t>>> page_tables_;
};

}  // namespace ondol::engine
