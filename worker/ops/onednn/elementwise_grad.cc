// dx from dy and the forward's input or output, all in one layout. In padding dy is zero, so dx is.
#include <array>

#include "common/base/status.h"
#include "worker/ops/onednn/families.h"
#include "worker/ops/onednn/layout.h"
#include "worker/ops/onednn/vector_math.h"

namespace pipedream::onednn {
namespace {

enum class ElementwiseGradOp {
  kRelu,
  kSigmoid,
  kTanh,
  kErf,
  kGelu,
  kGeluTanh,
  kHardSwish,
  kHardSigmoid,
  kClip
};

struct ElementwiseGradEntry {
  std::string_view name;
  ElementwiseGradOp op;
  std::string_view first;
  std::string_view second;
};
constexpr std::array kElementwiseGrads = {
    ElementwiseGradEntry{"ReluGrad", ElementwiseGradOp::kRelu, "", ""},
    ElementwiseGradEntry{"SigmoidGrad", ElementwiseGradOp::kSigmoid, "", ""},
    ElementwiseGradEntry{"TanhGrad", ElementwiseGradOp::kTanh, "", ""},
    ElementwiseGradEntry{"ErfGrad", ElementwiseGradOp::kErf, "", ""},
    ElementwiseGradEntry{"GeluGrad", ElementwiseGradOp::kGelu, "", ""},
    ElementwiseGradEntry{"GeluTanhGrad", ElementwiseGradOp::kGeluTanh, "", ""},
    ElementwiseGradEntry{"HardSwishGrad", ElementwiseGradOp::kHardSwish, "", ""},
    ElementwiseGradEntry{"HardSigmoidGrad", ElementwiseGradOp::kHardSigmoid, "alpha", "beta"},
    ElementwiseGradEntry{"ClipGrad", ElementwiseGradOp::kClip, "min", "max"},
};

template <typename F>
PD_INLINE void Map(const float* dy, const float* v, float* dx, int64_t n, F f) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = f(dy[i], v[i]);
}

PD_CLONES void MapRange(ElementwiseGradOp op, float a, float b, const float* dy, const float* v,
                        float* dx, int64_t n) {
  switch (op) {
    case ElementwiseGradOp::kRelu:
      return Map(dy, v, dx, n, [](float g, float y) { return y > 0 ? g : 0.0f; });
    case ElementwiseGradOp::kSigmoid:
      return Map(dy, v, dx, n, [](float g, float y) { return g * (y * (1 - y)); });
    case ElementwiseGradOp::kTanh:
      return Map(dy, v, dx, n, [](float g, float y) { return g * (1 - y * y); });
    case ElementwiseGradOp::kErf:
      return Map(dy, v, dx, n, [](float g, float x) {
        constexpr float kTwoOverRootPi = 1.12837917f;
        return g * (kTwoOverRootPi * VectorExp(-x * x));
      });
    case ElementwiseGradOp::kGelu:
      return Map(dy, v, dx, n, [](float g, float x) {
        constexpr float kOverRootTwoPi = 0.398942280f;
        return g * (NormalBelow(x) + x * (kOverRootTwoPi * VectorExp(-0.5f * x * x)));
      });
    case ElementwiseGradOp::kGeluTanh:
      return Map(dy, v, dx, n, [](float g, float x) {
        const float t = VectorTanh(GeluInner(x));
        return g * (0.5f + 0.5f * t + 0.5f * x * (1 - t * t) * GeluInnerSlope(x));
      });
    case ElementwiseGradOp::kHardSwish:
      return Map(dy, v, dx, n, [](float g, float x) {
        const float slope = x <= -3 ? 0.0f : (x >= 3 ? 1.0f : x * (1.0f / 3) + 0.5f);
        return g * slope;
      });
    case ElementwiseGradOp::kHardSigmoid:
      return Map(dy, v, dx, n, [=](float g, float x) {
        const float y = a * x + b;
        return y > 0 && y < 1 ? g * a : 0.0f;
      });
    case ElementwiseGradOp::kClip:
      return Map(dy, v, dx, n, [=](float g, float x) { return x >= a && x <= b ? g : 0.0f; });
  }
}

}  // namespace

absl::StatusOr<PreparedKernel> PrepareElementwiseGrad(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  const ElementwiseGradEntry* entry = kElementwiseGrads.data();
  while (entry->name != request.node.op) ++entry;
  const Attributes& attributes = request.node.attributes;
  const float a = entry->first.empty() ? 0 : static_cast<float>(attributes.Float(entry->first));
  const float b = entry->second.empty() ? 0 : static_cast<float>(attributes.Float(entry->second));
  // The saved tensor stays as the forward pass left it; dy comes to it.
  const TensorSpec spec = request.offered(1);
  const int64_t n = static_cast<int64_t>(spec.bytes / sizeof(float));
  auto run = [op = entry->op, a, b, n, threads = request.threads](const KernelArguments& args) {
    const float *dy = FloatIn(args, 0), *v = FloatIn(args, 1);
    float* dx = FloatOut(args, 0);
    ParallelFor(threads, n, kElementGrain, [=](int64_t begin, int64_t end) {
      MapRange(op, a, b, dy + begin, v + begin, dx + begin, end - begin);
    });
    return absl::OkStatus();
  };
  PreparedKernel prepared = request.Plain(MakeLoop(request, run));
  prepared.inputs[0] = prepared.inputs[1] = spec;
  prepared.outputs[0] = spec;
  prepared.in_place[0] = 0;
  return prepared;
}

}  // namespace pipedream::onednn
