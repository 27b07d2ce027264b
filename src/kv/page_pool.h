// Thread rule: one thread (the engine's).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/anonymous_memory.h"
#include "base/result.h"

namespace ondol::kv {

using PageId = uint32_t;

/// Fixed-size pages in one reserved range of memory. Memory is taken from the system as pages are
/// first written, and never exceeds n_pages * page_bytes. Pages are reference-counted; a page with
/// several holders is not written.
class PagePool {
 public:
  /// Reserves address space only. kNoMemory where the system refuses.
  static Result<PagePool> create(size_t page_bytes, uint32_t n_pages);
  PagePool(PagePool&& other) noexcept = default;
  PagePool& operator=(PagePool&&) = delete;

  /// A page with one holder; kNoMemory where none is free. Its content is whatever it held before.
  /// O(1).
  Result<PageId> allocate();
  void retain(PageId page);   ///< one holder more
  void release(PageId page);  ///< one holder less; without holders it is free
  /// Sequences that hold a page.
  uint32_t holders(PageId page) const { return holders_[page]; }
  /// Pages that nobody holds, and all pages.
  uint32_t n_free() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t n_pages() const { return static_cast<uint32_t>(holders_.size()); }

  /// Where page 0 begins; page i is i * page_bytes() behind it.
  std::byte* base() const { return memory_.data(); }
  size_t page_bytes() const { return page_bytes_; }

  /// Whether the free list and the holders agree; run by tests and when idle.
  Result<void> check_integrity() const;

 private:
  PagePool(AnonymousMemory memory, size_t page_bytes, uint32_t n_pages);

  AnonymousMemory memory_;
  size_t page_bytes_;
  std::vector<uint32_t> holders_;
  std::vector<PageId>
      free_;  // used from the back: a page that was just freed is still in the caches
};

}  // namespace ondol::kv
