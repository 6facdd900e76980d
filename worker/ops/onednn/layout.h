// Between tensor specs and oneDNN's memory descriptors. A Layout of this backend is a descriptor
// that is not row-major; row-major is always the null Layout, whatever oneDNN calls it.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <string>

#include "worker/ops/onednn/request.h"

namespace pipedream::onednn {

struct DnnlLayout : LayoutDescription {
  dnnl::memory::desc desc;
};

// The layout of a workspace also says which source and destination its forward primitive had:
// the gradient must rebuild exactly that primitive. Undefined descriptors: made by own loops.
struct WorkspaceLayout : LayoutDescription {
  dnnl::memory::desc workspace;
  dnnl::memory::desc source;
  dnnl::memory::desc destination;
};

const dnnl::engine& Engine();
// User scratchpad: a primitive may run on another thread than the one that made it.
dnnl::primitive_attr UserScratchpad();

dnnl::memory::dims DimsOf(const Shape& shape);
dnnl::memory::desc PlainDesc(const dnnl::memory::dims& dims,
                             dnnl::memory::data_type type = dnnl::memory::data_type::f32);
dnnl::memory::desc AnyDesc(const dnnl::memory::dims& dims);
// The tensor as it lies: its layout, or row-major `dims`. `dims` may differ from the shape (grouped
// weights have one axis more).
dnnl::memory::desc DescOf(const TensorSpec& spec, const dnnl::memory::dims& dims);
dnnl::memory::desc DescOf(const TensorSpec& spec);
// The spec of a float32 tensor of logical `shape` that lies as `desc` says.
TensorSpec SpecOf(const dnnl::memory::desc& desc, const Shape& shape);

// Equal for equal placement in memory: strides of axes of one element do not count.
std::string KeyOf(const dnnl::memory::desc& desc);
bool IsPlain(const dnnl::memory::desc& desc);
bool IsPadded(const TensorSpec& spec);
// Other dims in the same family of formats (row-major, channels last, blocked channels); row-major
// if the format is of no such family.
dnnl::memory::desc DescLike(const dnnl::memory::desc& like, const dnnl::memory::dims& dims);
// The layout in which a convolution leaves a result of this [N, C, D1..Dk]; row-major for other
// ranks. Kernels that add up in an order that follows the layout work in this one, whatever they
// are offered: what lies blocked behind a convolution comes row-major out of a message, and the
// result must not tell.
dnnl::memory::desc ConvolvedDesc(const Shape& shape);
// oneDNN has only its reference code for it, far slower than going through another layout.
bool IsReference(const char* implementation);

}  // namespace pipedream::onednn
