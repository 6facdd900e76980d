// Table of operator cases: attributes, odd shapes, groups, dilations, asymmetric padding, batches.
// Forward and gradient stand in one graph where the gradient reads what the forward made.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/graph/graph.h"

namespace pipedream {

struct KernelCase {
  std::string name;
  std::function<absl::Status(GraphBuilder&)> build;
  double tolerance = 1e-5;  // of the largest element
  int64_t classes = 10;     // labels are below
};
inline void PrintTo(const KernelCase& c, std::ostream* out) { *out << c.name; }

using Ints = std::vector<int64_t>;

// Adds inputs and nodes to a graph; the first error sticks.
class Net {
 public:
  explicit Net(GraphBuilder& builder) : builder_(builder) {}
  ValueId In(const std::string& name, Shape shape, DataType dtype = DataType::kFloat32) {
    return builder_.AddInput(name, dtype, std::move(shape));
  }
  ValueId Weight(const std::string& name, const Shape& shape) {
    return builder_.AddParameter(
        name, Tensor::FromVector(shape, std::vector<float>(shape.elements(), 0.0f)));
  }
  std::vector<ValueId> Op(std::string_view op, std::vector<ValueId> inputs, Attributes a = {}) {
    std::vector<ValueId> none(4, kNoValue);
    if (!status_.ok()) return none;
    auto outputs = builder_.AddNode("", op, std::move(inputs), std::move(a));
    if (!outputs.ok()) {
      status_ = outputs.status();
      return none;
    }
    return *outputs;
  }
  void DropOutput(int index) {
    if (status_.ok()) builder_.DropOutput(NodeId(builder_.graph().node_count() - 1), index);
  }
  const Shape& shape(ValueId id) const {
    static const Shape none;
    return id == kNoValue ? none : builder_.graph().value(id).shape;
  }
  absl::Status status() const { return status_; }

 private:
  GraphBuilder& builder_;
  absl::Status status_;
};

}  // namespace pipedream
