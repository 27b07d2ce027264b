// One runner for files given as field lists: our own (tests/data) and the reference collection's.
// Counts what the reader allocates, so that a hostile count cannot make it ask for memory.
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "gguf/describe.h"
#include "gguf/test_files.h"
#include "gguf/text.h"

namespace {

std::atomic<size_t> live_bytes{0};
std::atomic<size_t> peak_bytes{0};

void* counted_new(size_t size) {
  void* block = std::malloc(size);
  if (block == nullptr) throw std::bad_alloc();
  const size_t live = live_bytes += malloc_usable_size(block);
  if (live > peak_bytes) peak_bytes = live;
  return block;
}

void counted_delete(void* block) {
  if (block != nullptr) live_bytes -= malloc_usable_size(block);
  std::free(block);
}

}  // namespace

void* operator new(size_t size) { return counted_new(size); }
void* operator new[](size_t size) { return counted_new(size); }
void operator delete(void* block) noexcept { counted_delete(block); }
void operator delete[](void* block) noexcept { counted_delete(block); }
void operator delete(void* block, size_t) noexcept { counted_delete(block); }
void operator delete[](void* block, size_t) noexcept { counted_delete(block); }

namespace ondol::gguf::test {
namespace {

/// The most bytes on the heap while `work` ran, above what was there before.
template <class Work>
size_t heap_peak(Work work) {
  const size_t before = live_bytes;
  peak_bytes = before;
  work();
  return peak_bytes - before;
}

void check_accepted(const File& file, const boost::json::object& expected,
                    std::span<const std::byte> bytes) {
  if (const auto* n = expected.if_contains("n_kv")) {
    EXPECT_EQ(file.metadata().size(), n->to_number<size_t>());
  }
  if (const auto* n = expected.if_contains("n_tensors")) {
    EXPECT_EQ(file.tensors().size(), n->to_number<size_t>());
  }
  if (!expected.contains("tensors")) return;
  for (const auto& item : expected.at("tensors").as_array()) {
    const auto& wanted = item.as_object();
    const Tensor* tensor = file.tensor(std::string_view(wanted.at("name").as_string()));
    ASSERT_NE(tensor, nullptr);
    const auto& dims = wanted.at("dims").as_array();
    ASSERT_EQ(tensor->n_dims, dims.size());
    for (size_t d = 0; d < dims.size(); ++d)
      EXPECT_EQ(tensor->dims[d], dims[d].to_number<uint64_t>());
    EXPECT_EQ(quant::find_format(tensor->type)->name,
              std::string_view(wanted.at("type").as_string()));
    EXPECT_EQ(tensor->data.data() - bytes.data(), wanted.at("file_offset").to_number<ptrdiff_t>());
  }
}

void run_case(const boost::json::object& item) {
  const auto& expected = item.at("expected").as_object();
  const std::string built = build(item.at("input").as_object());
  if (const auto* size = item.at("input").as_object().if_contains("size")) {
    ASSERT_EQ(built.size(), size->to_number<size_t>()) << "the field list was not built as meant";
  }
  const std::vector<std::byte> bytes(as_bytes(built).begin(),
                                     as_bytes(built).end());  // exact end, for the sanitizer

  std::optional<Result<File>> file;
  const size_t peak = heap_peak([&] { file.emplace(File::parse(bytes, "case.gguf")); });
  EXPECT_LT(peak, 64 * bytes.size() + (64 << 10)) << "more memory than the file justifies";

  const std::string_view outcome = expected.at("result").as_string();
  if (outcome == "accept") {
    ASSERT_TRUE(*file) << file->error().message;
    check_accepted(**file, expected, bytes);
  } else if (outcome == "reject") {
    ASSERT_FALSE(*file) << "it has to be refused";
  }
  if (*file) {
    const Description d = describe(**file);
    const ShowOptions all{.metadata = true, .tensors = true, .chat_template = true};
    EXPECT_TRUE(is_utf8(to_text(d, all)));
    EXPECT_TRUE(boost::json::parse(to_json(d, all)).is_object());
  } else {
    const std::string& message = file->error().message;
    EXPECT_EQ(file->error().kind, ErrorKind::kRefused);
    EXPECT_NE(message.find("'case.gguf' was refused at byte "), std::string::npos) << message;
    EXPECT_TRUE(is_utf8(message)) << message;
    if (const auto* text = expected.if_contains("message_should_mention")) {
      EXPECT_NE(message.find(std::string_view(text->as_string())), std::string::npos) << message;
    }
  }
}

void run_file(const std::string& path) {
  const auto cases = ondol::test::read_json_lines(path);
  ASSERT_FALSE(cases.empty());
  for (const auto& item : cases) {
    SCOPED_TRACE(std::string_view(item.at("id").as_string()));
    run_case(item);
  }
}

TEST(GgufCases, OwnFiles) { run_file(ondol::test::data_path("gguf_cases.jsonl")); }

TEST(GgufCases, ReferenceFiles) {
  const std::string path = ondol::test::shared_path("cases/gguf_files.jsonl");
  if (path.empty()) GTEST_SKIP() << ondol::test::kNoShared;
  run_file(path);
}

}  // namespace
}  // namespace ondol::gguf::test
