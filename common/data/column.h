// Columns in memory; used by dataset.cc, open to tests.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/data/array_file.h"
#include "common/data/dataset.h"

namespace pipedream {

// Larger files are refused before they are read: columns live in memory.
inline constexpr int64_t kMaxColumnBytes = int64_t{16} << 30;
inline constexpr int64_t kMaxTextBytes = int64_t{1} << 30;

// Rows of an array: sample i is array[i].
std::shared_ptr<const Column> MakeArrayColumn(const ColumnSpec& spec, RawArray array);

// Rows are windows of tokens; row i covers tokens [i * stride + shift, ... + window). Only windows
// that leave `reserve` tokens behind their unshifted end count, so that columns of one text with
// different shifts have equally many rows. kInvalidArgument: bad window, stride or shift, or a text
// too short for one window.
absl::StatusOr<std::shared_ptr<const Column>> MakeTextColumn(const ColumnSpec& spec,
                                                             std::vector<int32_t> tokens,
                                                             int64_t reserve);

bool IsTextSpec(const ColumnSpec& spec);

// OpenColumn with the reserve of MakeTextColumn.
absl::StatusOr<std::shared_ptr<const Column>> OpenColumnReserving(const ColumnSpec& spec,
                                                                  int64_t reserve);

}  // namespace pipedream
