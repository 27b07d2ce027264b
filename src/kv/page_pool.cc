#include "kv/page_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace ondol::kv {

Result<PagePool> PagePool::create(size_t page_bytes, uint32_t n_pages) {
  assert(page_bytes > 0 && n_pages > 0);
  auto memory = AnonymousMemory::create(page_bytes * n_pages);
  if (!memory) {
    return no_memory(
        fmt::format("cannot reserve {} bytes for the KV cache; choose a smaller context with --ctx",
                    page_bytes * n_pages));
  }
  return PagePool(std::move(*memory), page_bytes, n_pages);
}

PagePool::PagePool(AnonymousMemory memory, size_t page_bytes, uint32_t n_pages)
    : memory_(std::move(memory)), page_bytes_(page_bytes), holders_(n_pages, 0), free_(n_pages) {
  for (uint32_t i = 0; i < n_pages; ++i) free_[i] = n_pages - 1 - i;
}

Result<PageId> PagePool::allocate() {
  if (free_.empty()) return no_memory("all pages of the KV cache are in use");
  const PageId page = free_.back();
  free_.pop_back();
  assert(holders_[page] == 0);
  holders_[page] = 1;
  return page;
}

void PagePool::retain(PageId page) {
  assert(holders_[page] > 0);
  ++holders_[page];
}

void PagePool::release(PageId page) {
  assert(holders_[page] > 0);
  if (--holders_[page] == 0) free_.push_back(page);
}

Result<void> PagePool::check_integrity() const {
  std::vector<bool> seen(holders_.size(), false);
  for (const PageId page : free_) {
    if (page >= holders_.size()) return failed(fmt::format("page {} does not exist", page));
    if (seen[page]) return failed(fmt::format("page {} is free twice", page));
    if (holders_[page] != 0)
      return failed(fmt::format("page {} is free but has {} holders", page, holders_[page]));
    seen[page] = true;
  }
  const auto idle = static_cast<size_t>(std::ranges::count(holders_, 0u));
  if (idle != free_.size())
    return failed(fmt::format("{} pages have no holder, {} are free", idle, free_.size()));
  return {};
}

}  // namespace ondol::kv
