#include "gguf/writer.h"

#include "base/env_forward.h"
#include "gguf/test_files.h"

namespace ondol::gguf::test {
namespace {

using testing::HasSubstr;

class WriterTest : public FolderTest {};

/// Fails the n-th write, flush, close or rename; everything else is the real machine.
class FailingEnv final : public EnvForward {
 public:
  explicit FailingEnv(int step) : EnvForward(Env::real()), left_(step) {}
  bool failed_once() const { return left_ < 0; }

  Result<std::unique_ptr<WritableFile>> open_writable(const std::string& path,
                                                      WriteMode mode) override {
    if (auto ok = step(); !ok) return propagate(std::move(ok));
    auto file = EnvForward::open_writable(path, mode);
    if (!file) return propagate(std::move(file));
    return std::make_unique<FailingFile>(*this, std::move(*file));
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    if (auto ok = step(); !ok) return ok;
    return EnvForward::rename(from, to);
  }

 private:
  class FailingFile final : public WritableFile {
   public:
    FailingFile(FailingEnv& env, std::unique_ptr<WritableFile> file)
        : env_(env), file_(std::move(file)) {}
    Result<void> append(std::span<const std::byte> bytes) override {
      if (auto ok = env_.step(); !ok) return ok;
      return file_->append(bytes);
    }
    Result<void> sync() override {
      if (auto ok = env_.step(); !ok) return ok;
      return file_->sync();
    }
    Result<void> close() override {
      if (auto ok = env_.step(); !ok) return ok;
      return file_->close();
    }

   private:
    FailingEnv& env_;
    std::unique_ptr<WritableFile> file_;
  };

  Result<void> step() {
    if (left_-- == 0) return failed("no space left on device");
    return {};
  }

  int left_;
};

void expect_equal(const Array& a, const Array& b) {
  ASSERT_EQ(a.type(), b.type());
  ASSERT_EQ(a.size(), b.size());
  for (uint64_t i = 0; i < a.size(); ++i) {
    if (a.type() == ValueType::kString) {
      EXPECT_EQ(a.at_string(i), b.at_string(i));
    } else if (a.type() == ValueType::kArray) {
      expect_equal(a.at_array(i), b.at_array(i));
    } else if (is_float(a.type())) {
      EXPECT_EQ(a.at_float(i), b.at_float(i));
    } else {
      EXPECT_EQ(a.at_uint(i), b.at_uint(i));
    }
  }
}

TEST_F(WriterTest, CopyIsTheSameFileByteForByte) {
  const std::string bytes = small_writer().to_bytes().value();
  const auto file = File::parse(as_bytes(bytes), "small").value();
  EXPECT_EQ(Writer::copy_of(file).to_bytes().value(), bytes);
}

TEST_F(WriterTest, WritesWhatWasSet) {
  ASSERT_TRUE(small_writer().write(env_, in_folder("a.gguf")));
  EXPECT_EQ(env_.list(folder_).value(), std::vector<std::string>{"a.gguf"});
  const auto from_disk = File::open(env_, in_folder("a.gguf")).value();
  const std::string bytes = small_writer().to_bytes().value();
  const auto from_memory = File::parse(as_bytes(bytes), "a").value();
  ASSERT_EQ(from_disk.metadata().size(), from_memory.metadata().size());
  for (const KeyValue& item : from_memory.metadata()) {
    const Value* other = from_disk.find(item.key);
    ASSERT_NE(other, nullptr);
    EXPECT_EQ(other->type, item.value.type);
    if (const auto* array = std::get_if<Array>(&item.value.data)) {
      expect_equal(*array, std::get<Array>(other->data));
    } else if (const auto* text = std::get_if<std::string_view>(&item.value.data)) {
      EXPECT_EQ(*text, std::get<std::string_view>(other->data));
    }
  }
  ASSERT_EQ(from_disk.tensors().size(), 3u);
  EXPECT_EQ(std::memcmp(from_disk.tensor("c.weight")->data.data(),
                        from_memory.tensor("c.weight")->data.data(), 34),
            0);
}

TEST_F(WriterTest, CopyWithChanges) {
  ASSERT_TRUE(small_writer().write(env_, in_folder("a.gguf")));
  const std::string other(64, '\x33');
  std::string bytes;
  {
    Writer w = Writer::copy_of(
        File::open(env_, in_folder("a.gguf")).value());  // the File itself is gone afterwards
    w.set("v.u32", 5)
        .set("general.architecture", "llama")
        .erase("v.text")
        .drop_tensor("b")
        .erase("none");
    w.add_tensor("a", kF32, {16}, as_bytes(other))
        .add_tensor("new", kF32, {}, as_bytes(other).first(4));
    bytes = w.to_bytes().value();
  }
  const auto file = File::parse(as_bytes(bytes), "changed").value();
  EXPECT_EQ(file.find("v.u32")->type, ValueType::kI32);
  EXPECT_EQ(file.get_uint("v.u32").value(), 5u);
  EXPECT_EQ(file.metadata()[0].key, "general.architecture");  // stays in its place
  EXPECT_EQ(file.get_string("general.architecture").value(), "llama");
  EXPECT_EQ(file.find("v.text"), nullptr);
  EXPECT_EQ(file.tensor("b"), nullptr);
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[0].data[63], std::byte{0x33});
  EXPECT_EQ(file.tensor("new")->n_dims, 0u);
}

TEST_F(WriterTest, AlignmentsAndVersions) {
  for (const uint32_t alignment : {8u, 32u, 64u, 4096u, 131072u}) {
    for (const uint32_t version : {2u, 3u}) {
      Writer w(version);
      const std::string data(40, 'd');
      w.set("general.alignment", alignment).add_tensor("x", kF32, {3}, as_bytes(data).first(12));
      w.add_tensor("y", kF32, {5}, as_bytes(data).first(20));
      const std::string bytes = w.to_bytes().value();
      EXPECT_EQ(bytes.size() % alignment, 0u);
      const auto file = File::parse(as_bytes(bytes), "aligned");
      ASSERT_TRUE(file) << file.error().message;
      EXPECT_EQ(file->version(), version);
      EXPECT_EQ((file->tensor("y")->data.data() - as_bytes(bytes).data()) % alignment, 0);
      EXPECT_EQ(file->tensor("y")->data[19], std::byte{'d'});
    }
  }
}

TEST_F(WriterTest, NothingBrokenIsEverVisible) {
  int step = 0;
  for (;; ++step) {
    FailingEnv env(step);
    const auto done = small_writer().write(env, in_folder("a.gguf"));
    if (!env.failed_once()) {
      EXPECT_TRUE(done);
      break;
    }
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().message, HasSubstr("no space"));
    EXPECT_TRUE(env_.list(folder_).value().empty()) << "step " << step;
  }
  EXPECT_GT(step, 8);  // open, head, three tensors with padding, flush, close, rename
}

TEST_F(WriterTest, RefusesWhatTheReaderWould) {
  const std::string data(256, '\0');
  const auto fails = [](const Writer& w, const std::string& mention) {
    const auto bytes = w.to_bytes();
    ASSERT_FALSE(bytes);
    EXPECT_EQ(bytes.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(bytes.error().message, HasSubstr(mention));
  };
  fails(Writer().set("", 1), "cannot be a key");
  fails(Writer().set("\xFF", 1), "\\xff");
  fails(Writer().set("general.alignment", 12u), "general.alignment");
  fails(Writer().set("general.alignment", uint64_t{32}), "general.alignment");
  fails(Writer().set("general.alignment", "32"), "general.alignment");
  fails(Writer().add_tensor("t", kF32, {4}, as_bytes(data).first(15)), "tensor 't'");
  fails(Writer().add_tensor("t", kQ4_0, {31}, as_bytes(data).first(18)), "tensor 't'");
  fails(Writer().add_tensor("t", kF32, {4, 0}, {}), "none of them 0");
  fails(Writer().add_tensor("t", kF32, {1, 1, 1, 1, 1}, as_bytes(data).first(4)), "at most 4");
  fails(Writer().add_tensor("t", kF32, {uint64_t{1} << 62}, {}), "tensor 't'");
  fails(Writer().add_tensor("t", kF32, {4, (uint64_t{1} << 60) + 1}, as_bytes(data).first(16)),
        "tensor 't'");
  fails(Writer().add_tensor(std::string(65, 'n'), kF32, {1}, as_bytes(data).first(4)), "1 to 64");
  fails(Writer().add_tensor("t", quant::Type{4}, {32}, as_bytes(data).first(20)), "type 4");
}

}  // namespace
}  // namespace ondol::gguf::test
