#include <algorithm>
#include <cmath>

#include "common/base/random.h"
#include "tests/support/reference_families.h"

namespace pipedream::reference {
namespace {

Result Binary(const Call& call, const std::function<double(double, double)>& f) {
  ReferenceTensor y(call.OutShape(0).elements());
  ForEachIndex(call.OutShape(0), [&](const Index& index, int64_t flat) {
    y[flat] = f(call.In(0)[BroadcastFlat(call.InShape(0), index)],
                call.In(1)[BroadcastFlat(call.InShape(1), index)]);
  });
  return Tensors{y};
}

Result Unary(const Call& call, const std::function<double(double)>& f) {
  ReferenceTensor y = call.In(0);
  for (double& v : y) v = f(v);
  return Tensors{y};
}

double HardSigmoid(double x, double alpha, double beta) {
  return std::max(0.0, std::min(1.0, alpha * x + beta));
}

constexpr double kPi = 3.14159265358979323846;

// The share of a standard normal distribution below x.
double NormalBelow(double x) { return (1 + std::erf(x / std::sqrt(2.0))) / 2; }
double GeluInner(double x) { return std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x); }

Result GeluTanhGrad(const Call& call) {
  return Binary(call, [](double dy, double x) {
    double t = std::tanh(GeluInner(x));
    double slope = std::sqrt(2 / kPi) * (1 + 3 * 0.044715 * x * x);
    return dy * ((1 + t) / 2 + x / 2 * (1 - t * t) * slope);
  });
}

Result Dropout(const Call& call) {
  double ratio = call.Float("ratio");
  ReferenceTensor y = call.In(0);
  for (size_t i = 0; i < y.size(); ++i) {
    double u = UniformFloat(Philox(7, static_cast<uint64_t>(call.Int("key")), i)[0]);
    y[i] = u < ratio ? 0 : y[i] / (1 - ratio);
  }
  return Tensors{y};
}

Result Forward(const Call& call) {
  if (call.Is("Add")) return Binary(call, [](double a, double b) { return a + b; });
  if (call.Is("Sub")) return Binary(call, [](double a, double b) { return a - b; });
  if (call.Is("Mul")) return Binary(call, [](double a, double b) { return a * b; });
  if (call.Is("Div")) return Binary(call, [](double a, double b) { return a / b; });
  if (call.Is("Scale")) {
    return Unary(call, [f = call.Float("factor")](double x) { return f * x; });
  }
  if (call.Is("Relu")) return Unary(call, [](double x) { return x > 0 ? x : 0; });
  if (call.Is("Sigmoid")) return Unary(call, [](double x) { return 1 / (1 + std::exp(-x)); });
  if (call.Is("Tanh")) return Unary(call, [](double x) { return std::tanh(x); });
  if (call.Is("Erf")) return Unary(call, [](double x) { return std::erf(x); });
  if (call.Is("Gelu")) return Unary(call, [](double x) { return x * NormalBelow(x); });
  if (call.Is("GeluTanh")) {
    return Unary(call, [](double x) { return x / 2 * (1 + std::tanh(GeluInner(x))); });
  }
  if (call.Is("Sqrt")) return Unary(call, [](double x) { return std::sqrt(x); });
  if (call.Is("Pow")) {
    return Unary(call, [p = call.Float("exponent")](double x) { return std::pow(x, p); });
  }
  if (call.Is("HardSwish")) {
    return Unary(call, [](double x) { return x * HardSigmoid(x, 1.0 / 6, 0.5); });
  }
  if (call.Is("HardSigmoid")) {
    return Unary(call, [a = call.Float("alpha"), b = call.Float("beta")](double x) {
      return HardSigmoid(x, a, b);
    });
  }
  if (call.Is("Clip")) {
    return Unary(call, [lo = call.Float("min"), hi = call.Float("max")](double x) {
      return std::min(hi, std::max(lo, x));
    });
  }
  return std::nullopt;
}

}  // namespace

Result Elementwise(const Call& call) {
  if (Result result = Forward(call)) return result;
  if (call.Is("Dropout") || call.Is("DropoutGrad")) return Dropout(call);
  if (call.Is("ReluGrad")) return Binary(call, [](double dy, double y) { return y > 0 ? dy : 0; });
  if (call.Is("SigmoidGrad")) {
    return Binary(call, [](double dy, double y) { return dy * y * (1 - y); });
  }
  if (call.Is("TanhGrad"))
    return Binary(call, [](double dy, double y) { return dy * (1 - y * y); });
  if (call.Is("ErfGrad")) {
    return Binary(call,
                  [](double dy, double x) { return dy * 2 / std::sqrt(kPi) * std::exp(-x * x); });
  }
  if (call.Is("GeluGrad")) {
    return Binary(call, [](double dy, double x) {
      return dy * (NormalBelow(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * kPi));
    });
  }
  if (call.Is("GeluTanhGrad")) return GeluTanhGrad(call);
  if (call.Is("HardSwishGrad")) {
    return Binary(call, [](double dy, double x) {
      return x <= -3 ? 0 : x >= 3 ? dy : dy * (2 * x + 3) / 6;
    });
  }
  if (call.Is("HardSigmoidGrad")) {
    return Binary(call, [a = call.Float("alpha"), b = call.Float("beta")](double dy, double x) {
      double line = a * x + b;
      return line > 0 && line < 1 ? a * dy : 0;
    });
  }
  if (call.Is("ClipGrad")) {
    return Binary(call, [lo = call.Float("min"), hi = call.Float("max")](double dy, double x) {
      return x >= lo && x <= hi ? dy : 0;
    });
  }
  return std::nullopt;
}

}  // namespace pipedream::reference
