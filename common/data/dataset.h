// Datasets: a set of named columns (model inputs and labels) with one row per sample. Files are
// IDX (MNIST's format), NPY, or UTF-8 text as tokens; each may be gzip-compressed.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/graph/types.h"

namespace pipedream {

enum class ColumnFormat { kAuto, kIdx, kNpy, kText };

// How a file becomes a column.
struct ColumnSpec {
  std::string name;              // model input or label it feeds
  std::string path;
  ColumnFormat format = ColumnFormat::kAuto;   // by content, text by the ending .txt
  // value = (raw - offset) * scale, for float columns.
  double scale = 1;
  double offset = 0;
  // Text: rows are windows of this many tokens (0: as many as the model's input takes), starting every
  // `stride` tokens (0: window). The largest shift of any column of the text, at least 1, is left free
  // at its end, so that all of them have equally many rows.
  int64_t window = 0;
  int64_t stride = 0;
  // Text: tokens are shifted by this many positions (labels: 1).
  int64_t shift = 0;
  std::string vocabulary_path;   // text whose distinct characters define the tokens; empty: `path`
  int64_t limit = 0;             // use the first `limit` rows; 0: all
  bool operator==(const ColumnSpec&) const = default;
};

// One column, held in memory in its file's element type. Immutable, thread-safe.
class Column {
 public:
  virtual ~Column() = default;
  virtual const std::string& name() const = 0;
  virtual int64_t rows() const = 0;
  virtual DataType stored_type() const = 0;
  virtual const Shape& sample_shape() const = 0;
  // Writes `rows.size()` samples in the given order as `dtype` (float32, int64 or int32) to `out`,
  // row-major. No allocation. REQUIRES: row numbers in range; out holds them.
  virtual void Gather(std::span<const int64_t> rows, DataType dtype, std::byte* out) const = 0;
  // Smallest and largest value (after scaling); for range checks of labels and tokens.
  virtual std::pair<double, double> Range() const = 0;
};

// Reads and checks a file. Errors name the path, what was found and what was expected.
absl::StatusOr<std::shared_ptr<const Column>> OpenColumn(const ColumnSpec& spec);

// What a model wants of a column.
struct ColumnRequirement {
  std::string name;
  DataType dtype = DataType::kFloat32;
  Shape sample_shape;
  int64_t classes = 0;     // > 0: values must lie in [0, classes)
};

// Columns of one split with equal row counts. A column whose sample shape differs from the
// requirement only by axes of length 1, or by grouping of axes with equal element count ([28, 28]
// against [1, 28, 28] or [784]), fits.
class Dataset {
 public:
  // kInvalidArgument: missing or unknown column, different row counts, no rows, wrong shape, label out of range
  // (with row number and value), fractional values for an integer column.
  static absl::StatusOr<std::shared_ptr<const Dataset>> Open(
      const std::vector<ColumnSpec>& columns, const std::vector<ColumnRequirement>& requirements);
  int64_t rows() const { return rows_; }
  // Null if there is no such column.
  const Column* Find(std::string_view name) const;

 private:
  int64_t rows_ = 0;
  std::vector<std::shared_ptr<const Column>> columns_;
};

// Standard file names in a folder: train-images-idx3-ubyte[.gz] and friends, <split>-<column>.npy,
// <split>.txt. `split` is "train" or "test". Fills name and path; for images scale 1/255, for text labels
// shift 1 and for held-out text the training text as vocabulary. kNotFound lists what was looked for.
absl::StatusOr<std::vector<ColumnSpec>> FindColumns(const std::string& folder,
                                                    const std::string& split,
                                                    const std::vector<std::string>& inputs,
                                                    const std::vector<std::string>& labels);

}  // namespace pipedream
