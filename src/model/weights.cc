#include "model/weights.h"

#include <fmt/format.h>

#include <cstring>

namespace ondol::model {

std::string block_tensor(int layer, std::string_view name) {
  return fmt::format("blk.{}.{}", layer, name);
}

const gguf::Tensor* Weights::find(const std::string& name, int64_t rows, int64_t cols,
                                  bool needed) {
  if (!status_) return nullptr;
  const gguf::Tensor* tensor = file_.tensor(name);
  if (tensor == nullptr) {
    if (needed) status_ = refused(fmt::format("the model file has no tensor '{}'", name));
    return nullptr;
  }
  if (tensor->dims[0] != static_cast<uint64_t>(cols) ||
      tensor->dims[1] != static_cast<uint64_t>(rows) || tensor->dims[2] != 1 ||
      tensor->dims[3] != 1) {
    status_ = refused(fmt::format(
        "tensor '{}' has the shape [{}, {}, {}, {}], but [{}, {}] is needed", name, tensor->dims[0],
        tensor->dims[1], tensor->dims[2], tensor->dims[3], cols, rows));
    return nullptr;
  }
  const quant::Format* format = quant::find_format(tensor->type);
  if (format == nullptr || format->dequantize == nullptr) {
    status_ = refused(fmt::format("tensor '{}' has the type {}, which is not supported yet", name,
                                  format == nullptr ? "unknown" : format->name));
    return nullptr;
  }
  return tensor;
}

kernels::Matrix Weights::matrix_or_none(const std::string& name, int64_t rows, int64_t cols) {
  const gguf::Tensor* tensor = find(name, rows, cols, false);
  if (tensor == nullptr) return {};
  matrix_bytes_ += tensor->data.size();
  return {tensor->type, rows, cols, tensor->data.data()};
}

kernels::Matrix Weights::matrix(const std::string& name, int64_t rows, int64_t cols) {
  if (find(name, rows, cols, true) == nullptr) return {};
  return matrix_or_none(name, rows, cols);
}

Vector Weights::vector_or_none(const std::string& name, int64_t n) {
  const gguf::Tensor* tensor = find(name, 1, n, false);
  if (tensor == nullptr) return nullptr;
  auto values = std::make_unique<float[]>(static_cast<size_t>(n));
  quant::find_format(tensor->type)
      ->dequantize(tensor->data.data(), {values.get(), static_cast<size_t>(n)});
  owned_.push_back(std::move(values));
  return owned_.back().get();
}

Vector Weights::vector(const std::string& name, int64_t n) {
  if (find(name, 1, n, true) == nullptr) return nullptr;
  return vector_or_none(name, n);
}

}  // namespace ondol::model
