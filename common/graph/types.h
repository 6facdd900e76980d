// Element types, shapes and host tensors: the vocabulary of graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipedream {

enum class DataType : uint8_t {
  kFloat32,
  kFloat64,
  kInt8,
  kUint8,
  kInt32,
  kInt64,
  kBool,
  // Bytes that only the kernels of one backend understand (a pooling workspace); the size is
  // known once the kernel is prepared.
  kOpaque,
};

// Bytes of one element; 1 for kOpaque.
size_t SizeOf(DataType type);
bool IsFloat(DataType type);
std::string_view ToString(DataType type);  // "float32"

// Dimensions, all known and >= 0. A scalar has rank 0.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  // REQUIRES: 0 <= axis < rank().
  int64_t operator[](int axis) const { return dims_[axis]; }
  int64_t& operator[](int axis) { return dims_[axis]; }
  const std::vector<int64_t>& dims() const { return dims_; }
  int64_t elements() const;
  std::string ToString() const;  // "[64, 3, 224, 224]"
  bool operator==(const Shape&) const = default;

 private:
  std::vector<int64_t> dims_;
};

// Product of dims, checked: false if a dimension is negative or the product exceeds `limit`.
bool CheckedElements(std::span<const int64_t> dims, int64_t limit, int64_t* elements);

// An immutable host tensor, row-major. Copies share the bytes; safe to read from any thread.
class Tensor {
 public:
  Tensor() = default;
  // Shares `owner`'s bytes (a mapped file, a message); `data` stays valid while owner lives.
  // REQUIRES: data.size() == elements * SizeOf(dtype).
  Tensor(DataType dtype, Shape shape, std::shared_ptr<const void> owner,
         std::span<const std::byte> data);
  // Copies.
  static Tensor Copy(DataType dtype, Shape shape, std::span<const std::byte> data);
  template <typename T>
  static Tensor FromVector(Shape shape, const std::vector<T>& values);

  DataType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::span<const std::byte> bytes() const { return data_; }
  bool empty() const { return owner_ == nullptr; }
  // REQUIRES: T matches dtype().
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data_.data()), data_.size() / sizeof(T)};
  }

 private:
  DataType dtype_ = DataType::kFloat32;
  Shape shape_;
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> data_;
};

template <typename T>
constexpr DataType DataTypeOf();
template <>
constexpr DataType DataTypeOf<float>() { return DataType::kFloat32; }
template <>
constexpr DataType DataTypeOf<double>() { return DataType::kFloat64; }
template <>
constexpr DataType DataTypeOf<int32_t>() { return DataType::kInt32; }
template <>
constexpr DataType DataTypeOf<int64_t>() { return DataType::kInt64; }
template <>
constexpr DataType DataTypeOf<uint8_t>() { return DataType::kUint8; }

template <typename T>
Tensor Tensor::FromVector(Shape shape, const std::vector<T>& values) {
  return Copy(DataTypeOf<T>(), std::move(shape), std::as_bytes(std::span<const T>(values)));
}

}  // namespace pipedream
