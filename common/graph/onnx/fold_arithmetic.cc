// Folds of elementwise operators, comparisons, casts and reductions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/status.h"
#include "common/graph/onnx/fold.h"
#include "common/graph/onnx/node_attributes.h"
#include "common/graph/onnx/proto.h"

namespace pipedream::onnx_import {
namespace {

using Result = absl::StatusOr<HostArray>;

double Round(double value) { return static_cast<double>(static_cast<float>(value)); }

absl::StatusOr<std::vector<int64_t>> Broadcast(const std::vector<int64_t>& a,
                                               const std::vector<int64_t>& b) {
  std::vector<int64_t> dims(std::max(a.size(), b.size()));
  for (size_t i = 0; i < dims.size(); ++i) {  // from the last axis
    int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      return InvalidArgument("shapes [{}] and [{}] do not broadcast", fmt::join(a, ", "),
                             fmt::join(b, ", "));
    dims[dims.size() - 1 - i] = x == 1 ? y : x;
  }
  PD_RETURN_IF_ERROR(FoldElements(dims).status());
  return dims;
}

// Index into an array of shape `from` for element `flat` of the broadcast shape `dims`.
int64_t SourceIndex(const std::vector<int64_t>& from, const std::vector<int64_t>& dims,
                    int64_t flat) {
  int64_t index = 0, stride = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t at = flat % dims[dims.size() - 1 - i];
    flat /= dims[dims.size() - 1 - i];
    if (i >= from.size()) continue;
    int64_t size = from[from.size() - 1 - i];
    if (size != 1) index += at * stride;
    stride *= size;
  }
  return index;
}

enum class Binary {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMod,
  kPow,
  kMin,
  kMax,
  kEqual,
  kLess,
  kGreater,
  kLessOrEqual,
  kGreaterOrEqual,
  kAnd,
  kOr
};

bool IsComparison(Binary op) { return op >= Binary::kEqual; }

absl::StatusOr<int64_t> ApplyInts(Binary op, int64_t a, int64_t b) {
  int64_t out = 0;
  bool overflow = false;
  switch (op) {
    case Binary::kAdd:
      overflow = __builtin_add_overflow(a, b, &out);
      break;
    case Binary::kSub:
      overflow = __builtin_sub_overflow(a, b, &out);
      break;
    case Binary::kMul:
      overflow = __builtin_mul_overflow(a, b, &out);
      break;
    case Binary::kDiv:
    case Binary::kMod:
      if (b == 0) return InvalidArgument("division by zero");
      overflow = b == -1 && a == std::numeric_limits<int64_t>::min();
      if (!overflow) out = op == Binary::kDiv ? a / b : ((a % b) + b) % b;
      break;
    case Binary::kPow: {
      double power = std::pow(static_cast<double>(a), static_cast<double>(b));
      overflow = !(std::abs(power) < 9e18);
      if (!overflow) out = static_cast<int64_t>(power);
      break;
    }
    case Binary::kMin:
      return std::min(a, b);
    case Binary::kMax:
      return std::max(a, b);
    case Binary::kEqual:
      return a == b;
    case Binary::kLess:
      return a < b;
    case Binary::kGreater:
      return a > b;
    case Binary::kLessOrEqual:
      return a <= b;
    case Binary::kGreaterOrEqual:
      return a >= b;
    case Binary::kAnd:
      return a != 0 && b != 0;
    case Binary::kOr:
      return a != 0 || b != 0;
  }
  if (overflow) return InvalidArgument("integer overflow of {} and {}", a, b);
  return out;
}

double ApplyFloats(Binary op, double a, double b) {
  switch (op) {
    case Binary::kAdd:
      return Round(a + b);
    case Binary::kSub:
      return Round(a - b);
    case Binary::kMul:
      return Round(a * b);
    case Binary::kDiv:
      return Round(a / b);
    case Binary::kMod:
      return Round(std::fmod(a, b));
    case Binary::kPow:
      return Round(std::pow(a, b));
    case Binary::kMin:
      return std::min(a, b);
    case Binary::kMax:
      return std::max(a, b);
    case Binary::kEqual:
      return a == b;
    case Binary::kLess:
      return a < b;
    case Binary::kGreater:
      return a > b;
    case Binary::kLessOrEqual:
      return a <= b;
    case Binary::kGreaterOrEqual:
      return a >= b;
    default:
      return 0;
  }
}

Result ApplyBinary(Binary op, const HostArray& a, const HostArray& b) {
  // Pow may raise an integer to a float and the other way round.
  if (a.is_float() != b.is_float() && op != Binary::kPow)
    return InvalidArgument("inputs of types {} and {}", ToString(a.dtype), ToString(b.dtype));
  HostArray out;
  PD_ASSIGN_OR_RETURN(out.dims, Broadcast(a.dims, b.dims));
  out.dtype = IsComparison(op) ? DataType::kBool : a.dtype;
  PD_ASSIGN_OR_RETURN(int64_t n, FoldElements(out.dims));
  auto number = [](const HostArray& x, int64_t i) {
    return x.is_float() ? x.floats[i] : static_cast<double>(x.ints[i]);
  };
  for (int64_t i = 0; i < n; ++i) {
    int64_t ia = SourceIndex(a.dims, out.dims, i), ib = SourceIndex(b.dims, out.dims, i);
    if (a.is_float() || b.is_float()) {
      double value = ApplyFloats(op, number(a, ia), number(b, ib));
      if (out.is_float())
        out.floats.push_back(value);
      else if (std::abs(value) < 9e18)
        out.ints.push_back(static_cast<int64_t>(value));
      else
        return InvalidArgument("integer overflow");
    } else {
      PD_ASSIGN_OR_RETURN(int64_t value, ApplyInts(op, a.ints[ia], b.ints[ib]));
      out.ints.push_back(value);
    }
  }
  return out;
}

template <Binary op>
Result FoldBinary(const FlatNode&, const FoldInputs& inputs, const TensorSource&) {
  PD_ASSIGN_OR_RETURN(const HostArray* a, FoldInput(inputs, 0));
  PD_ASSIGN_OR_RETURN(const HostArray* b, FoldInput(inputs, 1));
  return ApplyBinary(op, *a, *b);
}

template <Binary op>
Result FoldVariadic(const FlatNode&, const FoldInputs& inputs, const TensorSource&) {
  PD_ASSIGN_OR_RETURN(const HostArray* first, FoldInput(inputs, 0));
  HostArray out = *first;
  for (size_t i = 1; i < inputs.size(); ++i) {
    PD_ASSIGN_OR_RETURN(const HostArray* next, FoldInput(inputs, i));
    PD_ASSIGN_OR_RETURN(out, ApplyBinary(op, out, *next));
  }
  return out;
}

enum class Unary { kNeg, kAbs, kSqrt, kFloor, kCeil, kNot };

template <Unary op>
Result FoldUnary(const FlatNode&, const FoldInputs& inputs, const TensorSource&) {
  PD_ASSIGN_OR_RETURN(const HostArray* x, FoldInput(inputs, 0));
  HostArray out = *x;
  for (double& v : out.floats) {
    if (op == Unary::kNeg) v = -v;
    if (op == Unary::kAbs) v = std::abs(v);
    if (op == Unary::kSqrt) v = Round(std::sqrt(v));
    if (op == Unary::kFloor) v = std::floor(v);
    if (op == Unary::kCeil) v = std::ceil(v);
  }
  for (int64_t& v : out.ints) {
    if (v == std::numeric_limits<int64_t>::min()) return InvalidArgument("integer overflow");
    if (op == Unary::kNeg) v = -v;
    if (op == Unary::kAbs) v = std::abs(v);
    if (op == Unary::kNot) v = v == 0;
    if (op == Unary::kSqrt) return InvalidArgument("Sqrt of integers");
  }
  return out;
}

Result FoldCast(const FlatNode& node, const FoldInputs& inputs, const TensorSource&) {
  PD_ASSIGN_OR_RETURN(const HostArray* x, FoldInput(inputs, 0));
  NodeAttributes attributes(node);
  int64_t to = attributes.Int("to", 0);
  PD_RETURN_IF_ERROR(attributes.status());
  HostArray out;
  out.dims = x->dims;
  if (!ComputeType(static_cast<int>(std::clamp<int64_t>(to, 0, 1000)), &out.dtype))
    return Unimplemented("casts to {}",
                         OnnxTypeName(static_cast<int>(std::clamp<int64_t>(to, 0, 1000))));
  for (int64_t i = 0; i < x->elements(); ++i) {
    if (out.is_float()) {
      out.floats.push_back(x->is_float() ? x->floats[i] : Round(static_cast<double>(x->ints[i])));
      continue;
    }
    if (x->is_float() && !(std::abs(x->floats[i]) < 9e18) && out.dtype != DataType::kBool)
      return InvalidArgument("{} does not fit into an integer", x->floats[i]);
    bool boolean = out.dtype == DataType::kBool;
    if (x->is_float())
      out.ints.push_back(boolean ? x->floats[i] != 0 : static_cast<int64_t>(x->floats[i]));
    else
      out.ints.push_back(boolean ? x->ints[i] != 0 : x->ints[i]);
  }
  return out;
}

Result FoldWhere(const FlatNode&, const FoldInputs& inputs, const TensorSource&) {
  PD_ASSIGN_OR_RETURN(const HostArray* condition, FoldInput(inputs, 0));
  PD_ASSIGN_OR_RETURN(const HostArray* a, FoldInput(inputs, 1));
  PD_ASSIGN_OR_RETURN(const HostArray* b, FoldInput(inputs, 2));
  if (condition->is_float() || a->dtype != b->dtype)
    return InvalidArgument("inputs of types {}, {}, {}", ToString(condition->dtype),
                           ToString(a->dtype), ToString(b->dtype));
  HostArray out;
  out.dtype = a->dtype;
  PD_ASSIGN_OR_RETURN(out.dims, Broadcast(a->dims, b->dims));
  PD_ASSIGN_OR_RETURN(out.dims, Broadcast(out.dims, condition->dims));
  PD_ASSIGN_OR_RETURN(int64_t n, FoldElements(out.dims));
  for (int64_t i = 0; i < n; ++i) {
    bool first = condition->ints[SourceIndex(condition->dims, out.dims, i)] != 0;
    const HostArray& from = first ? *a : *b;
    int64_t at = SourceIndex(from.dims, out.dims, i);
    if (out.is_float())
      out.floats.push_back(from.floats[at]);
    else
      out.ints.push_back(from.ints[at]);
  }
  return out;
}

enum class Reduction { kProd, kSum, kMax, kMin };

// Over all elements of an integer vector, which is what shape arithmetic does.
template <Reduction op>
Result FoldReduce(const FlatNode& node, const FoldInputs& inputs, const TensorSource&) {
  PD_ASSIGN_OR_RETURN(const HostArray* x, FoldInput(inputs, 0));
  NodeAttributes attributes(node);
  bool keep = attributes.Int("keepdims", 1) != 0;
  std::vector<int64_t> axes = attributes.Ints("axes");
  PD_RETURN_IF_ERROR(attributes.status());
  if (inputs.size() > 1 && inputs[1] != nullptr) axes = inputs[1]->ints;
  if (x->is_float() || x->dims.size() > 1 || x->ints.empty())
    return Unimplemented("on constants, only for integers of rank 0 or 1");
  for (int64_t axis : axes)
    PD_RETURN_IF_ERROR(NormalAxis(axis, static_cast<int64_t>(x->dims.size())).status());
  int64_t value = x->ints[0];
  for (size_t i = 1; i < x->ints.size(); ++i) {
    constexpr Binary kOps[] = {Binary::kMul, Binary::kAdd, Binary::kMax, Binary::kMin};
    PD_ASSIGN_OR_RETURN(value, ApplyInts(kOps[static_cast<int>(op)], value, x->ints[i]));
  }
  return HostArray::Ints(keep ? std::vector<int64_t>(x->dims.size(), 1) : std::vector<int64_t>{},
                         {value});
}

}  // namespace

std::vector<FoldEntry> ArithmeticFolds() {
  return {
      {"Add", FoldBinary<Binary::kAdd>},
      {"Sub", FoldBinary<Binary::kSub>},
      {"Mul", FoldBinary<Binary::kMul>},
      {"Div", FoldBinary<Binary::kDiv>},
      {"Mod", FoldBinary<Binary::kMod>},
      {"Pow", FoldBinary<Binary::kPow>},
      {"Min", FoldVariadic<Binary::kMin>},
      {"Max", FoldVariadic<Binary::kMax>},
      {"Sum", FoldVariadic<Binary::kAdd>},
      {"Equal", FoldBinary<Binary::kEqual>},
      {"Less", FoldBinary<Binary::kLess>},
      {"Greater", FoldBinary<Binary::kGreater>},
      {"LessOrEqual", FoldBinary<Binary::kLessOrEqual>},
      {"GreaterOrEqual", FoldBinary<Binary::kGreaterOrEqual>},
      {"And", FoldBinary<Binary::kAnd>},
      {"Or", FoldBinary<Binary::kOr>},
      {"Neg", FoldUnary<Unary::kNeg>},
      {"Abs", FoldUnary<Unary::kAbs>},
      {"Sqrt", FoldUnary<Unary::kSqrt>},
      {"Floor", FoldUnary<Unary::kFloor>},
      {"Ceil", FoldUnary<Unary::kCeil>},
      {"Not", FoldUnary<Unary::kNot>},
      {"Cast", FoldCast},
      {"Where", FoldWhere},
      {"ReduceProd", FoldReduce<Reduction::kProd>},
      {"ReduceSum", FoldReduce<Reduction::kSum>},
      {"ReduceMax", FoldReduce<Reduction::kMax>},
      {"ReduceMin", FoldReduce<Reduction::kMin>},
  };
}

}  // namespace pipedream::onnx_import
