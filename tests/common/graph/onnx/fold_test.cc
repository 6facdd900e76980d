#include "common/graph/onnx/fold.h"

#include <gtest/gtest.h>

#include "common/graph/onnx/proto.h"
#include "tests/support/onnx_builder.h"
#include "tests/support/status_matchers.h"

namespace pipedream::onnx_import {
namespace {

using testing::ElementsAre;

struct Args {
  std::string op;
  std::vector<HostArray> inputs;
  std::map<std::string, int64_t> ints;
};

absl::StatusOr<HostArray> Fold(const Args& args) {
  onnx::NodeProto proto;
  OnnxNode builder(&proto);
  for (const auto& [name, value] : args.ints) builder.Int(name, value);
  FlatNode node;
  node.op = args.op;
  node.opset = 17;
  for (const auto& attribute : proto.attribute()) node.attributes[attribute.name()] = &attribute;
  FoldInputs inputs;
  for (const HostArray& input : args.inputs) inputs.push_back(&input);
  FoldFunction fold = FindFold(args.op);
  if (fold == nullptr) return NotFound("no fold {}", args.op);
  return fold(node, inputs, TensorSource{});
}

HostArray V(std::vector<int64_t> values) {
  int64_t n = static_cast<int64_t>(values.size());
  return HostArray::Ints({n}, std::move(values));
}
HostArray S(int64_t value) { return HostArray::Ints({}, {value}); }
HostArray F(std::vector<double> values) {
  int64_t n = static_cast<int64_t>(values.size());
  return {DataType::kFloat32, {n}, {}, std::move(values)};
}

TEST(Fold, IntegerArithmetic) {
  struct {
    Args args;
    std::vector<int64_t> expected;
  } cases[] = {
      {{"Add", {V({1, 2}), S(3)}, {}}, {4, 5}},
      {{"Div", {V({7, -7}), S(2)}, {}}, {3, -3}},
      {{"Mod", {V({7, -7}), S(4)}, {}}, {3, 1}},
      {{"Mul", {V({2, 3}), V({4, 5})}, {}}, {8, 15}},
      {{"Neg", {V({2, -3})}, {}}, {-2, 3}},
      {{"Equal", {V({1, 2}), V({1, 3})}, {}}, {1, 0}},
      {{"Gather", {V({5, 6, 7}), V({-1, 0})}, {{"axis", 0}}}, {7, 5}},
      {{"Concat", {V({1}), V({2, 3})}, {{"axis", 0}}}, {1, 2, 3}},
      {{"Slice", {V({0, 1, 2, 3}), V({3}), V({-10}), V({0}), V({-2})}, {}}, {3, 1}},
      {{"ReduceProd", {V({2, 3, 4})}, {}}, {24}},
      {{"Range", {S(3), S(-4), S(-3)}, {}}, {3, 0, -3}},
      {{"Expand", {V({1, 2}), V({2, 2})}, {}}, {1, 2, 1, 2}},
      {{"Cast", {F({1.9, -1.9})}, {{"to", onnx::TensorProto::INT64}}}, {1, -1}},
      {{"Where", {V({1, 0}), V({5, 6}), S(9)}, {}}, {5, 9}},
      {{"Transpose", {HostArray::Ints({2, 2}, {1, 2, 3, 4})}, {}}, {1, 3, 2, 4}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.args.op);
    ASSERT_OK_AND_ASSIGN(HostArray result, Fold(c.args));
    EXPECT_EQ(result.ints, c.expected);
  }
}

TEST(Fold, ImpossibleArithmeticIsAnError) {
  constexpr int64_t kBig = INT64_MAX;
  for (const Args& args : std::vector<Args>{
           {"Add", {S(kBig), S(1)}, {}},
           {"Mul", {S(kBig), S(2)}, {}},
           {"Div", {S(1), S(0)}, {}},
           {"Div", {S(INT64_MIN), S(-1)}, {}},
           {"Neg", {S(INT64_MIN)}, {}},
           {"Gather", {V({1, 2}), S(2)}, {}},
           {"Gather", {S(1), S(0)}, {}},
           {"Concat", {V({1}), HostArray::Ints({1, 1}, {1})}, {}},
           {"Slice", {V({1}), V({0}), V({1}), V({0}), V({0})}, {}},
           {"Range", {S(0), S(kBig), S(1)}, {}},
           {"Expand", {V({1, 2}), V({3})}, {}},
           {"Reshape", {V({1, 2, 3}), V({2, -1})}, {}},
           {"ConstantOfShape", {V({1 << 20, 1 << 20})}, {}},
           {"Cast", {F({1e30})}, {{"to", onnx::TensorProto::INT64}}},
           {"Add", {}, {}},
       }) {
    SCOPED_TRACE(args.op);
    EXPECT_FALSE(Fold(args).ok());
  }
}

TEST(Fold, ReshapeTargets) {
  auto resolve = [](std::vector<int64_t> from, std::vector<int64_t> target, bool zero = false) {
    auto dims = ResolveReshape(from, target, zero);
    return dims.ok() ? *dims : std::vector<int64_t>{-99};
  };
  EXPECT_THAT(resolve({2, 3, 4}, {0, -1}), ElementsAre(2, 12));
  EXPECT_THAT(resolve({2, 3, 4}, {-1}), ElementsAre(24));
  EXPECT_THAT(resolve({0, 3}, {3, 0}, true), ElementsAre(3, 0));
  EXPECT_THAT(resolve({2, 3}, {-1, -1}), ElementsAre(-99));
  EXPECT_THAT(resolve({2, 3}, {4, -1}), ElementsAre(-99));
  EXPECT_THAT(resolve({2, 3}, {0, 0, 0}), ElementsAre(-99));
  EXPECT_THAT(resolve({2, 3}, {-2, -3}), ElementsAre(-99));
  EXPECT_THAT(resolve({2, 3}, {INT64_MAX, 2}), ElementsAre(-99));
}

}  // namespace
}  // namespace pipedream::onnx_import
