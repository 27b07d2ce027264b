// Feeds bytes to the GGUF reader and, where it accepts them, reads all that the file offers,
// describes it and writes it again: the copy has to be read back with the same content.
#include <boost/json.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "gguf/describe.h"
#include "gguf/gguf.h"
#include "gguf/text.h"
#include "gguf/writer.h"

namespace {

using namespace ondol;
using namespace ondol::gguf;

void require(bool truth) {
  if (!truth) std::abort();  // libFuzzer saves the input
}

uint64_t walk(const Array& array) {
  uint64_t sum = array.size();
  for (uint64_t i = 0; i < array.size(); ++i) {
    switch (array.type()) {
      case ValueType::kString:
        for (const char c : array.at_string(i)) sum += static_cast<unsigned char>(c);
        break;
      case ValueType::kArray:
        sum += walk(array.at_array(i));
        break;
      case ValueType::kF32:
      case ValueType::kF64:
        sum += array.at_float(i) > 1 ? 1 : 0;
        break;
      default:
        sum += array.at_uint(i) ^ static_cast<uint64_t>(array.at_int(i));
    }
  }
  return sum;
}

/// Every typed look-up answers with a value or an error, for keys of every type.
uint64_t ask(const File& file, std::string_view key) {
  uint64_t sum = file.get_uint(key).value_or(1) + file.get_uint(key, 2).value_or(3);
  sum += file.get_float(key).value_or(0) > 0 ? 1 : 0;
  sum += file.get_bool(key, true).value_or(false) ? 1 : 0;
  sum += file.get_string(key).value_or("").size() + file.get_string(key, "x").value_or("").size();
  for (const auto type : {ValueType::kString, ValueType::kI32, ValueType::kF32, ValueType::kBool,
                          ValueType::kArray}) {
    const auto array = file.get_array(key, type);
    if (array && *array != nullptr) sum += walk(**array);
  }
  return sum;
}

uint64_t walk(const File& file) {
  uint64_t sum = ask(file, "absent");
  for (const KeyValue& item : file.metadata()) {
    require(file.find(item.key) == &item.value);
    if (const auto* array = std::get_if<Array>(&item.value.data)) sum += walk(*array);
    sum += ask(file, item.key);
  }
  for (const Tensor& tensor : file.tensors()) {
    require(file.tensor(tensor.name) == &tensor);
    for (const std::byte each : tensor.data) sum += std::to_integer<uint64_t>(each);
  }
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = File::parse(std::as_bytes(std::span(data, size)), "fuzz.gguf");
  if (!file) {
    require(file.error().kind == ErrorKind::kRefused && is_utf8(file.error().message));
    return 0;
  }
  const uint64_t sum = walk(*file);
  const ShowOptions all{.metadata = true, .tensors = true, .chat_template = true};
  const Description description = describe(*file);
  require(is_utf8(to_text(description, all)));
  const std::string json = to_json(description, all);
  require(is_utf8(json));
  boost::system::error_code code;
  boost::json::parse(json, code);
  require(!code);

  const auto copy = Writer::copy_of(*file).to_bytes();
  require(copy.has_value() || file->find("general.alignment") != nullptr);  // only a u32 is written
  if (!copy) return 0;
  const auto again = File::parse(std::as_bytes(std::span(*copy)), "copy.gguf");
  require(again.has_value() && again->tensors().size() == file->tensors().size());
  const bool split =
      again->metadata().size() != file->metadata().size();  // split.* keys are left out
  require(split || walk(*again) == sum);
  return 0;
}
