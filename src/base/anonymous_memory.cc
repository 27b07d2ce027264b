#include "base/anonymous_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include "base/units.h"

namespace ondol {

Result<AnonymousMemory> AnonymousMemory::create(size_t bytes, bool large_pages) {
  if (bytes == 0) return AnonymousMemory();
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED)
    return no_memory(fmt::format("the system has no room for {} more", format_size(bytes)));
#ifdef MADV_HUGEPAGE
  if (large_pages) madvise(data, bytes, MADV_HUGEPAGE);  // a wish: without it is only slower
#endif
  return AnonymousMemory(static_cast<std::byte*>(data), bytes);
}

AnonymousMemory::~AnonymousMemory() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace ondol
