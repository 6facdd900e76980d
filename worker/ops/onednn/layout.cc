#include "worker/ops/onednn/layout.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <string_view>

#include "common/base/status.h"

namespace pipedream::onednn {
namespace {

using dnnl::memory;
using tag = memory::format_tag;

std::span<const tag> SpatialTags(int rank) {
  static constexpr std::array kRank3 = {tag::ncw, tag::nwc, tag::nCw16c, tag::nCw8c, tag::nCw4c};
  static constexpr std::array kRank4 = {tag::nchw, tag::nhwc, tag::nChw16c, tag::nChw8c,
                                        tag::nChw4c};
  static constexpr std::array kRank5 = {tag::ncdhw, tag::ndhwc, tag::nCdhw16c, tag::nCdhw8c,
                                        tag::nCdhw4c};
  if (rank == 3) return kRank3;
  if (rank == 4) return kRank4;
  if (rank == 5) return kRank5;
  return {};
}

}  // namespace

const dnnl::engine& Engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

memory::dims DimsOf(const Shape& shape) {
  if (shape.rank() == 0) return {1};
  return memory::dims(shape.dims().begin(), shape.dims().end());
}

memory::desc PlainDesc(const memory::dims& dims, memory::data_type type) {
  memory::dims strides(dims.size());
  int64_t stride = 1;
  for (int i = static_cast<int>(dims.size()) - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return memory::desc(dims, type, strides);
}

memory::desc AnyDesc(const memory::dims& dims) {
  return memory::desc(dims, memory::data_type::f32, tag::any);
}

memory::desc DescOf(const TensorSpec& spec, const memory::dims& dims) {
  if (spec.layout == nullptr) return PlainDesc(dims);
  const auto* layout = dynamic_cast<const DnnlLayout*>(spec.layout.get());
  PIPEDREAM_CHECK(layout != nullptr);
  return layout->desc;
}

memory::desc DescOf(const TensorSpec& spec) { return DescOf(spec, DimsOf(spec.shape)); }

TensorSpec SpecOf(const memory::desc& desc, const Shape& shape) {
  TensorSpec spec = TensorSpec::Plain(DataType::kFloat32, shape);
  if (IsPlain(desc)) return spec;
  PIPEDREAM_CHECK(desc.data.format_kind == dnnl_blocked);
  auto layout = std::make_shared<DnnlLayout>();
  layout->desc = desc;
  layout->key = KeyOf(desc);
  spec.bytes = desc.get_size();
  spec.layout = std::move(layout);
  return spec;
}

std::string KeyOf(const memory::desc& desc) {
  const dnnl_memory_desc_t& d = desc.data;
  const dnnl_blocking_desc_t& blocking = d.format_desc.blocking;
  std::array<int64_t, DNNL_MAX_NDIMS> inner;
  inner.fill(1);
  for (int b = 0; b < blocking.inner_nblks; ++b) {
    inner[blocking.inner_idxs[b]] *= blocking.inner_blks[b];
  }
  std::string key = fmt::format("t{}f{}o{}x{}", static_cast<int>(d.data_type),
                                static_cast<int>(d.format_kind), d.offset0, d.extra.flags);
  for (int i = 0; i < d.ndims; ++i) {
    key += fmt::format(",{}/{}", d.dims[i], d.padded_dims[i]);
    if (d.padded_dims[i] / inner[i] > 1) key += fmt::format(":{}", blocking.strides[i]);
  }
  for (int b = 0; b < blocking.inner_nblks; ++b) {
    key += fmt::format(";{}@{}", blocking.inner_blks[b], blocking.inner_idxs[b]);
  }
  return key;
}

bool IsPlain(const memory::desc& desc) {
  if (desc.data.format_kind != dnnl_blocked) return false;
  return KeyOf(desc) == KeyOf(PlainDesc(desc.dims(), desc.data_type()));
}

bool IsPadded(const TensorSpec& spec) {
  return spec.bytes != static_cast<size_t>(spec.shape.elements()) * SizeOf(spec.dtype);
}

memory::desc DescLike(const memory::desc& like, const memory::dims& dims) {
  const std::string key = KeyOf(like);
  for (tag format : SpatialTags(like.data.ndims)) {
    if (KeyOf(memory::desc(like.dims(), memory::data_type::f32, format)) == key) {
      return memory::desc(dims, memory::data_type::f32, format);
    }
  }
  return PlainDesc(dims);
}

memory::desc ConvolvedDesc(const Shape& shape) {
  const memory::dims x = DimsOf(shape);
  if (SpatialTags(shape.rank()).empty() || shape.elements() == 0) return PlainDesc(x);
  const size_t axes = x.size() - 2;
  memory::dims w(x.size(), 3);
  w[0] = w[1] = x[1];
  const memory::dims ones(axes, 1);  // strides and padding
  const dnnl::convolution_forward::desc desc(dnnl::prop_kind::forward_training,
                                             dnnl::algorithm::convolution_direct, AnyDesc(x),
                                             AnyDesc(w), AnyDesc(x), ones, ones, ones);
  return dnnl::convolution_forward::primitive_desc(desc, UserScratchpad(), Engine()).dst_desc();
}

bool IsReference(const char* implementation) {
  return std::string_view(implementation).find("ref") != std::string_view::npos;
}

}  // namespace pipedream::onednn
