// Activations, roots, powers, Scale: any dense layout in, the same out.
#include <array>
#include <cmath>

#include "common/base/status.h"
#include "worker/ops/onednn/families.h"
#include "worker/ops/onednn/layout.h"
#include "worker/ops/onednn/vector_math.h"

namespace pipedream::onednn {
namespace {

enum class ElementwiseOp {
  kRelu,
  kSigmoid,
  kTanh,
  kErf,
  kGelu,
  kGeluTanh,
  kSqrt,
  kPow,
  kHardSwish,
  kHardSigmoid,
  kClip,
  kScale
};

struct ElementwiseEntry {
  std::string_view name;
  ElementwiseOp op;
  std::string_view first;  // attribute names of the two numbers
  std::string_view second;
};
constexpr std::array kElementwise = {
    ElementwiseEntry{"Relu", ElementwiseOp::kRelu, "", ""},
    ElementwiseEntry{"Sigmoid", ElementwiseOp::kSigmoid, "", ""},
    ElementwiseEntry{"Tanh", ElementwiseOp::kTanh, "", ""},
    ElementwiseEntry{"Erf", ElementwiseOp::kErf, "", ""},
    ElementwiseEntry{"Gelu", ElementwiseOp::kGelu, "", ""},
    ElementwiseEntry{"GeluTanh", ElementwiseOp::kGeluTanh, "", ""},
    ElementwiseEntry{"Sqrt", ElementwiseOp::kSqrt, "", ""},
    ElementwiseEntry{"Pow", ElementwiseOp::kPow, "exponent", ""},
    ElementwiseEntry{"HardSwish", ElementwiseOp::kHardSwish, "", ""},
    ElementwiseEntry{"HardSigmoid", ElementwiseOp::kHardSigmoid, "alpha", "beta"},
    ElementwiseEntry{"Clip", ElementwiseOp::kClip, "min", "max"},
    ElementwiseEntry{"Scale", ElementwiseOp::kScale, "factor", ""},
};

// Written so that NaN passes through: a broken number must not become a fine one.
PD_INLINE float Clamp(float v, float low, float high) {
  return v < low ? low : (v > high ? high : v);
}

template <typename F>
PD_INLINE void Map(const float* x, float* y, int64_t n, F f) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

// Small powers by products: libm's pow is a call per element.
PD_INLINE void Power(float exponent, const float* x, float* y, int64_t n) {
  if (exponent == 2) return Map(x, y, n, [](float v) { return v * v; });
  if (exponent == 3) return Map(x, y, n, [](float v) { return v * v * v; });
  for (int64_t i = 0; i < n; ++i) y[i] = std::pow(x[i], exponent);
}

PD_CLONES void MapRange(ElementwiseOp op, float a, float b, const float* x, float* y, int64_t n) {
  switch (op) {
    case ElementwiseOp::kRelu:
      return Map(x, y, n, [](float v) { return v < 0 ? 0.0f : v; });
    case ElementwiseOp::kSigmoid:
      return Map(x, y, n, [](float v) { return VectorSigmoid(v); });
    case ElementwiseOp::kTanh:
      return Map(x, y, n, [](float v) { return VectorTanh(v); });
    case ElementwiseOp::kErf:
      return Map(x, y, n, [](float v) { return VectorErf(v); });
    case ElementwiseOp::kGelu:
      return Map(x, y, n, [](float v) { return v * NormalBelow(v); });
    case ElementwiseOp::kGeluTanh:
      return Map(x, y, n, [](float v) { return v * (0.5f + 0.5f * VectorTanh(GeluInner(v))); });
    case ElementwiseOp::kSqrt:
      return Map(x, y, n, [](float v) { return std::sqrt(v); });
    case ElementwiseOp::kPow:
      return Power(a, x, y, n);
    case ElementwiseOp::kHardSwish:
      return Map(x, y, n, [](float v) { return v * Clamp(v * (1.0f / 6) + 0.5f, 0, 1); });
    case ElementwiseOp::kHardSigmoid:
      return Map(x, y, n, [=](float v) { return Clamp(a * v + b, 0, 1); });
    case ElementwiseOp::kClip:
      return Map(x, y, n, [=](float v) { return Clamp(v, a, b); });
    case ElementwiseOp::kScale:
      return Map(x, y, n, [=](float v) { return a * v; });
  }
}

}  // namespace

absl::StatusOr<PreparedKernel> PrepareElementwise(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  const ElementwiseEntry* entry = kElementwise.data();
  while (entry->name != request.node.op) ++entry;
  const Attributes& attributes = request.node.attributes;
  const float a = entry->first.empty() ? 0 : static_cast<float>(attributes.Float(entry->first));
  const float b = entry->second.empty() ? 0 : static_cast<float>(attributes.Float(entry->second));

  // Padding must stay zero, or the next convolution would read it.
  float at_zero = 0;
  MapRange(entry->op, a, b, &at_zero, &at_zero, 1);
  TensorSpec spec = request.offered(0);
  if (at_zero != 0 && IsPadded(spec)) spec = request.plain_input(0);

  const int64_t n = static_cast<int64_t>(spec.bytes / sizeof(float));
  auto run = [op = entry->op, a, b, n, threads = request.threads](const KernelArguments& args) {
    const float* x = FloatIn(args, 0);
    float* y = FloatOut(args, 0);
    ParallelFor(threads, n, kElementGrain, [=](int64_t begin, int64_t end) {
      MapRange(op, a, b, x + begin, y + begin, end - begin);
    });
    return absl::OkStatus();
  };
  PreparedKernel prepared = request.Plain(MakeLoop(request, run));
  prepared.inputs[0] = spec;
  prepared.outputs[0] = spec;
  prepared.in_place[0] = 0;
  return prepared;
}

}  // namespace pipedream::onednn
