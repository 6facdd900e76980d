#include "common/graph/onnx/tensor_data.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/graph/onnx/proto.h"

namespace pipedream::onnx_import {
namespace {

constexpr const char* kTypeNames[] = {
    "undefined",      "float32",    "uint8",          "int8",       "uint16",   "int16",
    "int32",          "int64",      "string",         "bool",       "float16",  "float64",
    "uint32",         "uint64",     "complex64",      "complex128", "bfloat16", "float8e4m3fn",
    "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4",      "int4"};

// Bits of one element; 0 if it has no fixed size.
int BitsOf(int type) {
  static constexpr int kBits[] = {0,  32, 8,  8,   16, 16, 32, 64, 0, 8, 16, 64,
                                  32, 64, 64, 128, 16, 8,  8,  8,  8, 4, 4};
  return type > 0 && type < static_cast<int>(std::size(kBits)) ? kBits[type] : 0;
}

// Elements in the typed field that holds `type`, and how many one element takes there.
int64_t TypedCount(const onnx::TensorProto& t, int* per_element) {
  *per_element = 1;
  switch (t.data_type()) {
    case onnx::TensorProto::FLOAT:
      return t.float_data_size();
    case onnx::TensorProto::COMPLEX64:
      *per_element = 2;
      return t.float_data_size();
    case onnx::TensorProto::DOUBLE:
      return t.double_data_size();
    case onnx::TensorProto::COMPLEX128:
      *per_element = 2;
      return t.double_data_size();
    case onnx::TensorProto::INT64:
      return t.int64_data_size();
    case onnx::TensorProto::UINT32:
    case onnx::TensorProto::UINT64:
      return t.uint64_data_size();
    case onnx::TensorProto::STRING:
      return t.string_data_size();
    default:
      return t.int32_data_size();
  }
}

struct ExternalLocation {
  std::string location;
  int64_t offset = 0;
  int64_t length = -1;  // to the end of the file
};

absl::StatusOr<ExternalLocation> ReadLocation(const onnx::TensorProto& t, const std::string& what) {
  ExternalLocation where;
  for (const auto& entry : t.external_data()) {
    if (entry.key() == "location") where.location = entry.value();
    if (entry.key() != "offset" && entry.key() != "length") continue;
    int64_t number = -1;
    const std::string& text = entry.value();
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 0)
      return InvalidArgument("{}: external data {} '{}' is not a number >= 0", what, entry.key(),
                             text);
    (entry.key() == "offset" ? where.offset : where.length) = number;
  }
  if (where.location.empty()) return InvalidArgument("{}: external data has no location", what);
  return where;
}

absl::StatusOr<std::span<const std::byte>> ExternalBytes(const onnx::TensorProto& t,
                                                         const std::string& what, int64_t bytes,
                                                         const TensorSource& source,
                                                         std::shared_ptr<const void>* owner) {
  PD_ASSIGN_OR_RETURN(ExternalLocation where, ReadLocation(t, what));
  auto opened = source.files->Open(where.location);
  if (!opened.ok()) return Annotate(opened.status(), what);
  int64_t size = static_cast<int64_t>((*opened)->bytes().size());
  if (where.offset > size || (where.length < 0 ? bytes : where.length) > size - where.offset)
    return InvalidArgument(
        "{}: external data file '{}' has {} bytes, but offset {} and length {} "
        "lead past its end",
        what, where.location, size, where.offset, where.length < 0 ? bytes : where.length);
  if (where.length >= 0 && where.length != bytes)
    return InvalidArgument("{}: external data has {} bytes, its dims need {}", what, where.length,
                           bytes);
  *owner = *opened;
  return (*opened)->bytes().subspan(where.offset, bytes);
}

std::vector<int64_t> Dims(const onnx::TensorProto& t) { return {t.dims().begin(), t.dims().end()}; }

absl::StatusOr<int64_t> CheckDims(const onnx::TensorProto& t, const std::string& what,
                                  const TensorSource& source) {
  std::vector<int64_t> dims = Dims(t);
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (dims[axis] < 0)
      return InvalidArgument("{}: negative dimension {} at axis {}", what, dims[axis], axis);
  int64_t elements = 0;
  if (!CheckedElements(dims, int64_t{1} << 60, &elements))
    return InvalidArgument("{}: the product of its dims [{}] overflows", what,
                           fmt::join(dims, ", "));
  int bits = std::max(BitsOf(t.data_type()), 1);
  if (elements / 8 > source.max_tensor_bytes / bits)
    return ResourceExhausted("{}: dims [{}] of {} need more than the limit of {} bytes a tensor",
                             what, fmt::join(dims, ", "), OnnxTypeName(t.data_type()),
                             source.max_tensor_bytes);
  return elements;
}

template <typename From, typename To>
std::vector<To> Convert(std::span<const std::byte> bytes) {
  std::vector<To> out(bytes.size() / sizeof(From));
  for (size_t i = 0; i < out.size(); ++i) {
    From value;
    std::memcpy(&value, bytes.data() + i * sizeof(From), sizeof(From));
    out[i] = static_cast<To>(value);
  }
  return out;
}

absl::StatusOr<Tensor> FromRaw(int type, Shape shape, std::span<const std::byte> bytes,
                               std::shared_ptr<const void> owner) {
  bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % 8 == 0;
  auto share = [&](DataType as) {
    return aligned ? Tensor(as, std::move(shape), std::move(owner), bytes)
                   : Tensor::Copy(as, std::move(shape), bytes);
  };
  auto ints = [&](auto example) {
    return Tensor::FromVector(std::move(shape), Convert<decltype(example), int64_t>(bytes));
  };
  switch (type) {
    case onnx::TensorProto::FLOAT:
      return share(DataType::kFloat32);
    case onnx::TensorProto::INT64:
      return share(DataType::kInt64);
    case onnx::TensorProto::BOOL:
      return share(DataType::kBool);
    case onnx::TensorProto::DOUBLE:
      return Tensor::FromVector(std::move(shape), Convert<double, float>(bytes));
    case onnx::TensorProto::INT32:
      return ints(int32_t{});
    case onnx::TensorProto::UINT32:
      return ints(uint32_t{});
    case onnx::TensorProto::UINT64:
      return ints(uint64_t{});
    case onnx::TensorProto::INT16:
      return ints(int16_t{});
    case onnx::TensorProto::UINT16:
      return ints(uint16_t{});
    case onnx::TensorProto::INT8:
      return ints(int8_t{});
    case onnx::TensorProto::UINT8:
      return ints(uint8_t{});
    default:
      return Internal("no conversion for type {}", type);
  }
}

absl::StatusOr<Tensor> FromTyped(const onnx::TensorProto& t, Shape shape,
                                 const std::shared_ptr<const onnx::ModelProto>& model) {
  switch (t.data_type()) {
    case onnx::TensorProto::FLOAT:
      return Tensor(DataType::kFloat32, std::move(shape), model,
                    std::as_bytes(std::span(t.float_data().data(), t.float_data_size())));
    case onnx::TensorProto::INT64: {
      std::vector<int64_t> values(t.int64_data().begin(), t.int64_data().end());
      return Tensor::FromVector(std::move(shape), values);
    }
    case onnx::TensorProto::DOUBLE:
      return Tensor::FromVector(std::move(shape),
                                std::vector<float>(t.double_data().begin(), t.double_data().end()));
    case onnx::TensorProto::UINT32:
    case onnx::TensorProto::UINT64:
      return Tensor::FromVector(
          std::move(shape), std::vector<int64_t>(t.uint64_data().begin(), t.uint64_data().end()));
    case onnx::TensorProto::BOOL: {
      std::vector<uint8_t> values;
      for (int32_t v : t.int32_data()) values.push_back(v != 0);
      return Tensor::Copy(DataType::kBool, std::move(shape),
                          std::as_bytes(std::span<const uint8_t>(values)));
    }
    default:
      return Tensor::FromVector(std::move(shape),
                                std::vector<int64_t>(t.int32_data().begin(), t.int32_data().end()));
  }
}

}  // namespace

bool IsExternal(const onnx::TensorProto& tensor) {
  return tensor.data_location() == onnx::TensorProto::EXTERNAL;
}

std::string OnnxTypeName(int type) {
  if (type > 0 && type < static_cast<int>(std::size(kTypeNames))) return kTypeNames[type];
  return fmt::format("type {}", type);
}

bool ComputeType(int type, DataType* out) {
  switch (type) {
    case onnx::TensorProto::FLOAT:
    case onnx::TensorProto::DOUBLE:
      *out = DataType::kFloat32;
      return true;
    case onnx::TensorProto::BOOL:
      *out = DataType::kBool;
      return true;
    case onnx::TensorProto::INT64:
    case onnx::TensorProto::INT32:
    case onnx::TensorProto::INT16:
    case onnx::TensorProto::INT8:
    case onnx::TensorProto::UINT8:
    case onnx::TensorProto::UINT16:
    case onnx::TensorProto::UINT32:
    case onnx::TensorProto::UINT64:
      *out = DataType::kInt64;
      return true;
    default:
      return false;
  }
}

absl::StatusOr<std::shared_ptr<const MappedFile>> ExternalFiles::Open(const std::string& location) {
  if (auto found = files_.find(location); found != files_.end()) return found->second;
  auto path = ResolveUnder(folder_, location);
  if (absl::IsNotFound(path.status()))
    return NotFound("external data file '{}' does not exist in the model's folder '{}'", location,
                    folder_);
  if (absl::IsInvalidArgument(path.status()))
    return InvalidArgument(
        "external data file '{}' must lie in the model's folder '{}': no absolute path, nothing "
        "above the folder, no link out of it",
        location, folder_);
  if (!path.ok()) return path.status();
  PD_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, MappedFile::Open(*path));
  files_[location] = file;
  return file;
}

absl::Status CheckTensor(const onnx::TensorProto& t, const std::string& what,
                         const TensorSource& source) {
  PD_ASSIGN_OR_RETURN(int64_t elements, CheckDims(t, what, source));
  int bits = BitsOf(t.data_type());
  int64_t bytes = bits == 0 ? -1 : (elements * bits + 7) / 8;
  if (t.has_segment()) return InvalidArgument("{}: segmented tensors are not part of ONNX", what);
  if (IsExternal(t)) {
    if (bytes < 0)
      return InvalidArgument("{}: external data cannot hold {}", what, OnnxTypeName(t.data_type()));
    std::shared_ptr<const void> owner;
    return ExternalBytes(t, what, bytes, source, &owner).status();
  }
  std::string dims =
      fmt::format("dims [{}] of {}", fmt::join(Dims(t), ", "), OnnxTypeName(t.data_type()));
  if (t.has_raw_data()) {
    if (bytes >= 0 && static_cast<int64_t>(t.raw_data().size()) != bytes)
      return InvalidArgument("{}: raw_data has {} bytes, its {} need {}", what, t.raw_data().size(),
                             dims, bytes);
    return absl::OkStatus();
  }
  int per_element = 1;
  int64_t count = TypedCount(t, &per_element);
  // Four-bit types pack two elements in one entry.
  int64_t needed = bits == 4 ? (elements + 1) / 2 : elements * per_element;
  if (bits > 0 && count != needed)
    return InvalidArgument("{}: it has {} elements of data, its {} need {}", what, count, dims,
                           needed);
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ReadTensor(const onnx::TensorProto& t, const std::string& what,
                                  const TensorSource& source) {
  PD_RETURN_IF_ERROR(CheckTensor(t, what, source));
  DataType type;
  if (!ComputeType(t.data_type(), &type))
    return Unimplemented("{}: type {} is not supported (float32, float64 and integers are)", what,
                         OnnxTypeName(t.data_type()));
  Shape shape(Dims(t));
  if (IsExternal(t)) {
    std::shared_ptr<const void> owner;
    int64_t bytes = shape.elements() * BitsOf(t.data_type()) / 8;
    PD_ASSIGN_OR_RETURN(std::span<const std::byte> data,
                        ExternalBytes(t, what, bytes, source, &owner));
    return FromRaw(t.data_type(), std::move(shape), data, std::move(owner));
  }
  if (t.has_raw_data())
    return FromRaw(t.data_type(), std::move(shape),
                   std::as_bytes(std::span(t.raw_data().data(), t.raw_data().size())),
                   source.model);
  return FromTyped(t, std::move(shape), source.model);
}

}  // namespace pipedream::onnx_import
