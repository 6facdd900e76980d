// Loops over tensors of one shape whose operands step differently: broadcasting (step 0), slicing,
// padding. Axes that all operands walk alike are merged first.
#pragma once

#include <array>
#include <cstdint>

#include "common/graph/types.h"

namespace pipedream::onednn {

using Steps = std::vector<int64_t>;  // elements between neighbours, per axis

Steps RowMajorSteps(const Shape& shape);
// Steps of `from` when it is broadcast to `to` as NumPy does.
Steps BroadcastSteps(const Shape& from, const Shape& to);

template <int kOperands>
class StridedLoop {
 public:
  StridedLoop(const Shape& shape, const std::array<Steps, kOperands>& steps);
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }  // elements of a row
  int64_t column_step(int operand) const { return column_steps_[operand]; }

  // f(offsets of each operand's first element) for rows [begin, end).
  template <typename F>
  void ForRows(int64_t begin, int64_t end, const F& f) const {
    std::vector<int64_t>::size_type rank = dims_.size();
    std::array<int64_t, kMaxRank> index{};
    std::array<int64_t, kOperands> offsets{};
    int64_t rest = begin;
    for (size_t i = rank; i-- > 0;) {
      index[i] = rest % dims_[i];
      rest /= dims_[i];
      for (int o = 0; o < kOperands; ++o) offsets[o] += index[i] * steps_[o][i];
    }
    for (int64_t row = begin; row < end; ++row) {
      f(offsets);
      for (size_t i = rank; i-- > 0;) {
        for (int o = 0; o < kOperands; ++o) offsets[o] += steps_[o][i];
        if (++index[i] < dims_[i]) break;
        for (int o = 0; o < kOperands; ++o) offsets[o] -= dims_[i] * steps_[o][i];
        index[i] = 0;
      }
    }
  }

 private:
  static constexpr int kMaxRank = 16;
  std::vector<int64_t> dims_;  // without the innermost axis
  std::array<Steps, kOperands> steps_;
  std::array<int64_t, kOperands> column_steps_{};
  int64_t rows_ = 1;
  int64_t columns_ = 1;
};

template <int kOperands>
StridedLoop<kOperands>::StridedLoop(const Shape& shape, const std::array<Steps, kOperands>& steps) {
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) continue;
    bool merges = !dims_.empty();
    for (int o = 0; merges && o < kOperands; ++o) {
      merges = steps_[o].back() == steps[o][i] * shape[i];
    }
    if (merges) {
      dims_.back() *= shape[i];
      for (int o = 0; o < kOperands; ++o) steps_[o].back() = steps[o][i];
    } else {
      dims_.push_back(shape[i]);
      for (int o = 0; o < kOperands; ++o) steps_[o].push_back(steps[o][i]);
    }
  }
  if (!dims_.empty()) {
    columns_ = dims_.back();
    dims_.pop_back();
    for (int o = 0; o < kOperands; ++o) {
      column_steps_[o] = steps_[o].back();
      steps_[o].pop_back();
    }
  }
  for (int64_t d : dims_) rows_ *= d;
}

}  // namespace pipedream::onednn
