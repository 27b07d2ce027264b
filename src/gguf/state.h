// Thread rule: written by one thread while a file is opened, read-only from then on.
//
// Behind gguf.h: what a File holds, and the parser that fills it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gguf/gguf.h"

namespace ondol::gguf {

/// What one part holds. All views point into its bytes.
struct Part {
  uint32_t version = 0;
  std::vector<KeyValue> metadata;
  std::vector<Tensor> tensors;
};

struct File::State {
  std::string path;
  std::vector<std::string> part_paths;
  std::vector<std::unique_ptr<MappedFile>> maps;
  uint32_t version = 0;
  uint64_t size = 0;
  std::vector<KeyValue> metadata;
  std::vector<Tensor> tensors;
  std::vector<uint32_t> key_order;     // metadata by key
  std::vector<uint32_t> tensor_order;  // tensors by name
};

/// Reads one part, from front to back, each step checked against the bytes that are left.
class Parser {
 public:
  Parser(std::span<const std::byte> bytes, std::string_view name) : bytes_(bytes), name_(name) {}

  Result<Part> run();

  /// A File over finished parts; sorts the names. Fails if two parts hold a tensor of the same
  /// name.
  static Result<File> finish(std::unique_ptr<File::State> state);
  /// For split.cc, which cannot name the private type.
  static std::unique_ptr<File::State> new_state();

 private:
  struct Entry {      // of the tensor table
    uint64_t at;      // where the entry begins
    uint64_t offset;  // of its data, from the start of the data section
    uint64_t bytes;
  };

  bool parse();
  bool header(uint64_t& n_tensors, uint64_t& n_keys);
  bool magic();
  bool version();
  bool metadata(uint64_t n_keys);
  bool value(ValueType type, Value& out);
  bool array(Array& out, uint32_t depth);
  bool array_strings(Array& out);
  bool array_arrays(Array& out, uint32_t depth);
  bool value_type(std::string_view field, ValueType& out);
  bool string(std::string_view field, uint64_t limit, std::string_view& out);
  bool name(std::string_view field, uint64_t limit, std::string_view& out);
  bool unique_names();
  bool alignment(uint64_t& out);
  bool tensor_table(uint64_t n_tensors);
  bool tensor_entry(Tensor& tensor, Entry& entry);
  bool tensor_size(const Tensor& tensor, Entry& entry, uint64_t type_at);
  bool place_tensors(uint64_t alignment);
  bool no_overlap();

  uint64_t left() const { return bytes_.size() - at_; }
  template <class T>
  bool number(std::string_view field, T& out);
  template <class T, class Stored>
  bool number_value(Value& out);

  /// Notes what is wrong with `field` (of subject_) at byte `at`; false, to be passed on.
  bool refuse(uint64_t at, std::string_view field, std::string_view what);
  bool cut_short(std::string_view field, uint64_t needed);

  std::span<const std::byte> bytes_;
  std::string_view name_;
  uint64_t at_ = 0;
  std::string_view subject_;  // the key or tensor that is being read, for messages
  uint64_t inner_arrays_ = 0;
  std::vector<Entry> entries_;  // as part_.tensors
  Part part_;
  Error error_;
};

}  // namespace ondol::gguf
