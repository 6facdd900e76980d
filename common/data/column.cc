#include "common/data/column.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/data/text_tokens.h"

namespace pipedream {
namespace {

// How stored elements become values of a float column.
struct Scaling {
  double scale = 1;
  double offset = 0;
  double operator()(double raw) const { return (raw - offset) * scale; }
};

template <typename To, typename From>
To Convert(From raw, const Scaling& scaling) {
  if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(scaling(static_cast<double>(raw)));
  } else if constexpr (std::is_floating_point_v<From>) {
    // Values outside To's range have no meaning as integers; Dataset::Open refuses them.
    constexpr double kLimit = sizeof(To) == 8 ? 9.2e18 : 2147483647.0;
    const auto value = static_cast<double>(raw);
    return value >= -kLimit && value <= kLimit ? static_cast<To>(value) : To{0};
  } else {
    return static_cast<To>(raw);
  }
}

template <typename To, typename From>
void ConvertRun(const std::byte* from, int64_t count, const Scaling& scaling, std::byte* to) {
  const auto* in = reinterpret_cast<const From*>(from);
  auto* out = reinterpret_cast<To*>(to);
  for (int64_t i = 0; i < count; ++i) out[i] = Convert<To>(in[i], scaling);
}

template <typename From>
void ConvertRunTo(DataType dtype, const std::byte* from, int64_t count, const Scaling& scaling,
                  std::byte* to) {
  switch (dtype) {
    case DataType::kFloat32:
      return ConvertRun<float, From>(from, count, scaling, to);
    case DataType::kInt64:
      return ConvertRun<int64_t, From>(from, count, scaling, to);
    case DataType::kInt32:
      return ConvertRun<int32_t, From>(from, count, scaling, to);
    default:
      PIPEDREAM_CHECK(false);
  }
}

void ConvertElements(DataType stored, DataType wanted, const std::byte* from, int64_t count,
                     const Scaling& scaling, std::byte* to) {
  switch (stored) {
    case DataType::kFloat32:
      return ConvertRunTo<float>(wanted, from, count, scaling, to);
    case DataType::kFloat64:
      return ConvertRunTo<double>(wanted, from, count, scaling, to);
    case DataType::kInt8:
      return ConvertRunTo<int8_t>(wanted, from, count, scaling, to);
    case DataType::kUint8:
      return ConvertRunTo<uint8_t>(wanted, from, count, scaling, to);
    case DataType::kInt32:
      return ConvertRunTo<int32_t>(wanted, from, count, scaling, to);
    case DataType::kInt64:
      return ConvertRunTo<int64_t>(wanted, from, count, scaling, to);
    default:
      PIPEDREAM_CHECK(false);
  }
}

template <typename T>
std::pair<double, double> RawRange(const std::byte* data, int64_t count) {
  const auto* values = reinterpret_cast<const T*>(data);
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(values[i]);
    low = std::min(low, value);
    high = std::max(high, value);
  }
  return {low, high};
}

std::pair<double, double> RangeOf(DataType type, const std::byte* data, int64_t count) {
  switch (type) {
    case DataType::kFloat32:
      return RawRange<float>(data, count);
    case DataType::kFloat64:
      return RawRange<double>(data, count);
    case DataType::kInt8:
      return RawRange<int8_t>(data, count);
    case DataType::kUint8:
      return RawRange<uint8_t>(data, count);
    case DataType::kInt32:
      return RawRange<int32_t>(data, count);
    case DataType::kInt64:
      return RawRange<int64_t>(data, count);
    default:
      PIPEDREAM_CHECK(false);
  }
}

// Rows at a fixed distance in one buffer: arrays have stride == sample elements, text windows may
// overlap or leave gaps.
class StridedColumn : public Column {
 public:
  StridedColumn(const ColumnSpec& spec, RawArray array, Shape sample, int64_t rows, int64_t stride,
                int64_t first)
      : name_(spec.name),
        scaling_{spec.scale, spec.offset},
        array_(std::move(array)),
        sample_shape_(std::move(sample)),
        sample_elements_(sample_shape_.elements()),
        rows_(spec.limit > 0 ? std::min(rows, spec.limit) : rows),
        stride_(stride),
        first_(first) {}

  const std::string& name() const override { return name_; }
  int64_t rows() const override { return rows_; }
  DataType stored_type() const override { return array_.dtype; }
  const Shape& sample_shape() const override { return sample_shape_; }

  void Gather(std::span<const int64_t> rows, DataType dtype, std::byte* out) const override {
    const auto element = static_cast<int64_t>(SizeOf(dtype));
    for (const int64_t row : rows) {
      ConvertElements(array_.dtype, dtype, At(first_ + row * stride_), sample_elements_, scaling_,
                      out);
      out += sample_elements_ * element;
    }
  }

  std::pair<double, double> Range() const override {
    if (rows_ == 0 || sample_elements_ == 0) return {0, 0};
    const int64_t span = (rows_ - 1) * stride_ + sample_elements_;
    auto [low, high] = RangeOf(array_.dtype, At(first_), span);
    low = scaling_(low);
    high = scaling_(high);
    return {std::min(low, high), std::max(low, high)};
  }

 private:
  const std::byte* At(int64_t element) const {
    return reinterpret_cast<const std::byte*>(array_.bytes.data()) +
           element * static_cast<int64_t>(SizeOf(array_.dtype));
  }

  const std::string name_;
  const Scaling scaling_;
  const RawArray array_;
  const Shape sample_shape_;
  const int64_t sample_elements_;
  const int64_t rows_;
  const int64_t stride_;
  const int64_t first_;
};

// Ends in .txt or .txt.gz.
bool HasTextEnding(std::string_view path) {
  if (path.ends_with(".gz")) path.remove_suffix(3);
  return path.ends_with(".txt");
}

absl::StatusOr<std::shared_ptr<const Column>> OpenText(const ColumnSpec& spec, int64_t reserve) {
  PD_ASSIGN_OR_RETURN(const std::string text, ReadMaybeGzip(spec.path, kMaxTextBytes));
  PD_ASSIGN_OR_RETURN(std::vector<char32_t> characters, DecodeUtf8(text, spec.path));
  std::vector<char32_t> vocabulary;
  if (spec.vocabulary_path.empty() || spec.vocabulary_path == spec.path) {
    vocabulary = DistinctCharacters(characters);
  } else {
    PD_ASSIGN_OR_RETURN(const std::string other,
                        ReadMaybeGzip(spec.vocabulary_path, kMaxTextBytes));
    PD_ASSIGN_OR_RETURN(std::vector<char32_t> decoded, DecodeUtf8(other, spec.vocabulary_path));
    vocabulary = DistinctCharacters(std::move(decoded));
  }
  PD_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, Tokenize(characters, vocabulary, spec.path));
  return MakeTextColumn(spec, std::move(tokens), reserve);
}

absl::Status CheckSpec(const ColumnSpec& spec) {
  if (spec.path.empty()) return InvalidArgument("column '{}' names no file", spec.name);
  if (!std::isfinite(spec.scale) || !std::isfinite(spec.offset) || spec.scale == 0) {
    return InvalidArgument("column '{}': scale {} must be finite and not 0, offset {} finite",
                           spec.name, spec.scale, spec.offset);
  }
  if (spec.limit < 0) {
    return InvalidArgument("column '{}': limit {} must not be negative", spec.name, spec.limit);
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<const Column> MakeArrayColumn(const ColumnSpec& spec, RawArray array) {
  const std::vector<int64_t>& dims = array.shape.dims();
  Shape sample(std::vector<int64_t>(dims.begin() + 1, dims.end()));
  const int64_t rows = dims[0], stride = sample.elements();
  return std::make_shared<StridedColumn>(spec, std::move(array), std::move(sample), rows, stride,
                                         0);
}

absl::StatusOr<std::shared_ptr<const Column>> MakeTextColumn(const ColumnSpec& spec,
                                                             std::vector<int32_t> tokens,
                                                             int64_t reserve) {
  const auto count = static_cast<int64_t>(tokens.size());
  const int64_t stride = spec.stride == 0 ? spec.window : spec.stride;
  if (spec.window < 1 || stride < 1 || spec.shift < 0) {
    return InvalidArgument(
        "{}: column '{}' reads text: window {} must be at least 1, stride {} and shift {} not "
        "negative",
        spec.path, spec.name, spec.window, spec.stride, spec.shift);
  }
  reserve = std::max({reserve, spec.shift, int64_t{0}});
  if (reserve > count || spec.window > count - reserve) {
    return InvalidArgument(
        "{}: the text has {} characters, column '{}' needs at least {} (a window of {} and {} "
        "after it)",
        spec.path, count, spec.name, spec.window + reserve, spec.window, reserve);
  }
  const int64_t rows = (count - reserve - spec.window) / stride + 1;
  RawArray array{DataType::kInt32, Shape{count},
                 std::string(reinterpret_cast<const char*>(tokens.data()), tokens.size() * 4)};
  return std::make_shared<StridedColumn>(spec, std::move(array), Shape{spec.window}, rows, stride,
                                         spec.shift);
}

bool IsTextSpec(const ColumnSpec& spec) {
  return spec.format == ColumnFormat::kText ||
         (spec.format == ColumnFormat::kAuto && HasTextEnding(spec.path));
}

absl::StatusOr<std::shared_ptr<const Column>> OpenColumnReserving(const ColumnSpec& spec,
                                                                  int64_t reserve) {
  PD_RETURN_IF_ERROR(CheckSpec(spec));
  if (IsTextSpec(spec)) return OpenText(spec, reserve);
  PD_ASSIGN_OR_RETURN(std::string content, ReadMaybeGzip(spec.path, kMaxColumnBytes));
  ColumnFormat format = spec.format;
  if (format == ColumnFormat::kAuto) {
    if (LooksLikeNpy(content)) {
      format = ColumnFormat::kNpy;
    } else if (LooksLikeIdx(content)) {
      format = ColumnFormat::kIdx;
    } else {
      return InvalidArgument(
          "{}: neither IDX nor NPY ({} bytes); text files must end in .txt or say format: text",
          spec.path, content.size());
    }
  }
  absl::StatusOr<RawArray> array = format == ColumnFormat::kNpy
                                       ? ParseNpy(std::move(content), spec.path)
                                       : ParseIdx(std::move(content), spec.path);
  if (!array.ok()) return array.status();
  return MakeArrayColumn(spec, *std::move(array));
}

absl::StatusOr<std::shared_ptr<const Column>> OpenColumn(const ColumnSpec& spec) {
  return OpenColumnReserving(spec, /*reserve=*/1);
}

}  // namespace pipedream
