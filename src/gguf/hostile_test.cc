// Broken variants of a small valid file: every cut, every flipped bit, every odd count. Run under
// the sanitizers this says that no check is missing; the outcome itself must be an error or a file
// that can be walked.
#include <random>

#include "gguf/describe.h"
#include "gguf/test_files.h"
#include "gguf/text.h"

namespace ondol::gguf::test {
namespace {

/// Reads everything that an open file offers; the sum keeps the compiler from leaving it out.
uint64_t walk(const Array& array) {
  uint64_t sum = array.size();
  for (uint64_t i = 0; i < array.size(); ++i) {
    if (array.type() == ValueType::kString) {
      for (const char c : array.at_string(i)) sum += static_cast<unsigned char>(c);
    } else if (array.type() == ValueType::kArray) {
      sum += walk(array.at_array(i));
    } else if (is_float(array.type())) {
      sum += array.at_float(i) > 0 ? 1 : 0;
    } else {
      sum += array.at_uint(i) + static_cast<uint64_t>(array.at_int(i));
    }
  }
  return sum;
}

uint64_t walk(const File& file) {
  uint64_t sum = 0;
  for (const KeyValue& item : file.metadata()) {
    if (const auto* array = std::get_if<Array>(&item.value.data)) sum += walk(*array);
    EXPECT_EQ(file.find(item.key), &item.value);
  }
  for (const Tensor& tensor : file.tensors()) {
    for (const std::byte each : tensor.data) sum += std::to_integer<uint64_t>(each);
    EXPECT_EQ(file.tensor(tensor.name), &tensor);
  }
  EXPECT_TRUE(is_utf8(to_text(describe(file), {true, true, true})));
  EXPECT_FALSE(boost::json::parse(to_json(describe(file), {true, true, true})).as_object().empty());
  return sum;
}

/// Parses an exact copy; true if it was accepted.
bool survives(std::string_view bytes) {
  const std::vector<char> copy(bytes.begin(), bytes.end());
  const auto file = File::parse(std::as_bytes(std::span(copy)), "broken.gguf");
  if (!file) {
    EXPECT_EQ(file.error().kind, ErrorKind::kRefused);
    EXPECT_TRUE(is_utf8(file.error().message));
    return false;
  }
  return walk(*file) > 0;
}

TEST(Hostile, EveryCutIsRefused) {
  const std::string whole = small_writer().to_bytes().value();
  ASSERT_TRUE(survives(whole));
  // Behind the last tensor come nothing but the padding bytes, which may be missing.
  const size_t needed = whole.size() - 30;
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(survives(std::string_view(whole).substr(0, size)), size >= needed) << size;
  }
}

TEST(Hostile, EveryFlippedBitIsSurvived) {
  const std::string whole = small_writer().to_bytes().value();
  size_t accepted = 0;
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string broken = whole;
    broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << bit % 8));
    accepted += survives(broken) ? 1 : 0;
  }
  EXPECT_GT(accepted, 0u);  // a bit of a tensor's data changes nothing
  EXPECT_LT(accepted, whole.size() * 8);
}

TEST(Hostile, EveryByteAsAnExtremeIsSurvived) {
  const std::string whole = small_writer().to_bytes().value();
  for (size_t at = 0; at + 8 <= whole.size(); ++at) {
    for (const uint64_t extreme :
         {~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 31, uint64_t{0xFFFFFFFF}, uint64_t{0}}) {
      std::string broken = whole;
      std::memcpy(broken.data() + at, &extreme, sizeof extreme);
      survives(broken);
    }
  }
}

TEST(Hostile, RandomBlocksMovedAboutAreSurvived) {
  const std::string whole = small_writer().to_bytes().value();
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string broken = whole;
    const size_t size = 1 + random() % 24;
    const size_t from = random() % (whole.size() - size);
    const size_t to = random() % (whole.size() - size);
    if (round % 3 == 0) broken.erase(to, size);
    if (round % 3 == 1) broken.insert(to, whole.substr(from, size));
    if (round % 3 == 2) broken.replace(to, size, whole.substr(from, size));
    survives(broken);
  }
}

TEST(Hostile, OddSizesOfTensors) {
  const std::string data(4096, '\x22');
  for (const quant::Format& format : quant::formats()) {
    for (const uint64_t blocks : {1, 3, 7}) {
      const uint64_t bytes = blocks * format.block_bytes;
      Writer w;
      w.add_tensor("odd", format.type, {format.block_values, blocks}, as_bytes(data).first(bytes));
      const std::string file = w.to_bytes().value();
      EXPECT_TRUE(survives(file)) << format.name;
      const size_t data_at = file.size() - (bytes + 31) / 32 * 32;
      EXPECT_TRUE(survives(std::string_view(file).substr(0, data_at + bytes))) << format.name;
      EXPECT_FALSE(survives(std::string_view(file).substr(0, data_at + bytes - 1))) << format.name;
    }
  }
}

}  // namespace
}  // namespace ondol::gguf::test
