#include "common/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/data/column.h"
#include "common/data/shape_fit.h"

namespace pipedream {
namespace {

template <typename T>
std::string Names(const std::vector<T>& items) {
  std::vector<std::string> names;
  for (const T& item : items) names.push_back(item.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

const ColumnRequirement* FindRequirement(const std::vector<ColumnRequirement>& requirements,
                                         std::string_view name) {
  for (const ColumnRequirement& requirement : requirements)
    if (requirement.name == name) return &requirement;
  return nullptr;
}

absl::Status CheckNames(const std::vector<ColumnSpec>& columns,
                        const std::vector<ColumnRequirement>& requirements) {
  for (size_t i = 0; i < columns.size(); ++i) {
    if (FindRequirement(requirements, columns[i].name) == nullptr) {
      return InvalidArgument("column '{}' is neither an input of the model nor a label; it has: {}",
                             columns[i].name, Names(requirements));
    }
    for (size_t j = 0; j < i; ++j) {
      if (columns[i].name == columns[j].name) {
        return InvalidArgument("column '{}' is given twice: {} and {}", columns[i].name,
                               columns[j].path, columns[i].path);
      }
    }
  }
  for (const ColumnRequirement& requirement : requirements) {
    const auto named = [&](const ColumnSpec& c) { return c.name == requirement.name; };
    if (std::none_of(columns.begin(), columns.end(), named)) {
      return InvalidArgument("no data for '{}', which the model needs; given: {}", requirement.name,
                             columns.empty() ? "none" : Names(columns));
    }
  }
  return absl::OkStatus();
}

// The first value that an integer column may not have: fractional, or outside [0, classes).
absl::Status CheckIntegers(const Column& column, const ColumnSpec& spec,
                           const ColumnRequirement& requirement) {
  const bool stored_float = IsFloat(column.stored_type());
  if (!stored_float && requirement.classes <= 0) return absl::OkStatus();
  const int64_t elements = column.sample_shape().elements();
  std::vector<float> floats(stored_float ? elements : 0);
  std::vector<int64_t> integers(elements);
  for (int64_t row = 0; row < column.rows(); ++row) {
    if (stored_float) {
      column.Gather({&row, 1}, DataType::kFloat32, reinterpret_cast<std::byte*>(floats.data()));
      for (const float value : floats) {
        if (value == std::floor(value) && std::abs(value) < 0x1p53f) continue;
        return InvalidArgument("{}: column '{}' needs whole numbers, row {} has {}", spec.path,
                               spec.name, row, value);
      }
    }
    if (requirement.classes <= 0) continue;
    column.Gather({&row, 1}, DataType::kInt64, reinterpret_cast<std::byte*>(integers.data()));
    for (const int64_t value : integers) {
      if (value >= 0 && value < requirement.classes) continue;
      return InvalidArgument(
          "{}: column '{}' row {} is {}, but the model has {} classes: values must be 0 to {}",
          spec.path, spec.name, row, value, requirement.classes, requirement.classes - 1);
    }
  }
  return absl::OkStatus();
}

// Most tokens that any column of the same text looks ahead.
int64_t Reserve(const std::vector<ColumnSpec>& columns, const ColumnSpec& spec) {
  int64_t reserve = 1;
  for (const ColumnSpec& other : columns)
    if (other.path == spec.path) reserve = std::max(reserve, other.shift);
  return reserve;
}

absl::StatusOr<std::shared_ptr<const Column>> OpenFitting(const std::vector<ColumnSpec>& columns,
                                                          ColumnSpec spec,
                                                          const ColumnRequirement& requirement) {
  if (IsTextSpec(spec) && spec.window == 0) spec.window = requirement.sample_shape.elements();
  if (!IsFloat(requirement.dtype)) {  // scaling is for float columns
    spec.scale = 1;
    spec.offset = 0;
  }
  PD_ASSIGN_OR_RETURN(std::shared_ptr<const Column> column,
                      OpenColumnReserving(spec, Reserve(columns, spec)));
  if (column->rows() == 0) return InvalidArgument("{}: has no rows", spec.path);
  if (!ShapeFits(column->sample_shape(), requirement.sample_shape)) {
    return InvalidArgument(
        "{}: column '{}' has samples of shape {}, the model wants {}; they must agree up to axes "
        "of length 1 and grouping of axes",
        spec.path, spec.name, column->sample_shape().ToString(),
        requirement.sample_shape.ToString());
  }
  if (!IsFloat(requirement.dtype)) {
    PD_RETURN_IF_ERROR(CheckIntegers(*column, spec, requirement));
  }
  return column;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> Dataset::Open(
    const std::vector<ColumnSpec>& columns, const std::vector<ColumnRequirement>& requirements) {
  PD_RETURN_IF_ERROR(CheckNames(columns, requirements));
  if (columns.empty()) return InvalidArgument("the dataset has no columns");
  auto dataset = std::make_shared<Dataset>();
  for (const ColumnSpec& spec : columns) {
    const ColumnRequirement& requirement = *FindRequirement(requirements, spec.name);
    PD_ASSIGN_OR_RETURN(std::shared_ptr<const Column> column,
                        OpenFitting(columns, spec, requirement));
    if (dataset->columns_.empty()) dataset->rows_ = column->rows();
    if (column->rows() != dataset->rows_) {
      return InvalidArgument(
          "columns have different numbers of rows: '{}' ({}) has {}, '{}' ({}) has {}",
          columns[0].name, columns[0].path, dataset->rows_, spec.name, spec.path, column->rows());
    }
    dataset->columns_.push_back(std::move(column));
  }
  return dataset;
}

const Column* Dataset::Find(std::string_view name) const {
  for (const std::shared_ptr<const Column>& column : columns_)
    if (column->name() == name) return column.get();
  return nullptr;
}

}  // namespace pipedream
