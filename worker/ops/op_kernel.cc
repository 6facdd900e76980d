#include "worker/ops/op_kernel.h"

namespace pipedream {

TensorSpec TensorSpec::Plain(DataType dtype, const Shape& shape) {
  TensorSpec spec;
  spec.dtype = dtype;
  spec.shape = shape;
  spec.bytes = static_cast<size_t>(shape.elements()) * SizeOf(dtype);
  return spec;
}

bool SameLayout(const TensorSpec& a, const TensorSpec& b) {
  if (a.layout == b.layout) return true;
  return a.layout != nullptr && b.layout != nullptr && a.layout->key == b.layout->key;
}

}  // namespace pipedream
