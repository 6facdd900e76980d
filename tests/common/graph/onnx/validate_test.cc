#include "common/graph/onnx/validate.h"

#include <gtest/gtest.h>

#include "tests/common/graph/onnx/onnx_test_util.h"

namespace pipedream {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

OnnxBuilder Chain() {
  OnnxBuilder b;
  b.Input("x", {-1, 4}).Output("y", {-1, 4});
  b.Node("Relu", {"x"}, {"a"});
  b.Node("Tanh", {"a"}, {"b"});
  b.Node("Sigmoid", {"b"}, {"y"});
  return b;
}

TEST(Validate, VersionsOutsideTheRangeAreNamed) {
  for (int64_t ir : {0, 2, 11}) {
    OnnxBuilder b = Chain();
    b.proto().set_ir_version(ir);
    EXPECT_THAT(LoadBuilt(b), StatusIs(kInvalid, HasSubstr("IR version")));
  }
  for (int64_t ir : {3, 10}) {
    OnnxBuilder b = Chain();
    b.proto().set_ir_version(ir);
    EXPECT_OK(LoadBuilt(b));
  }
  for (int64_t opset : {8, 22}) {
    OnnxBuilder b = Chain();
    b.proto().mutable_opset_import(0)->set_version(opset);
    EXPECT_THAT(LoadBuilt(b), StatusIs(kInvalid, HasSubstr("opset")));
  }
}

TEST(Validate, DomainsMustBeImported) {
  OnnxBuilder b = Chain();
  b.proto().mutable_graph()->mutable_node(1)->set_domain("strange");
  EXPECT_THAT(LoadBuilt(b), StatusIs(kInvalid, AllOf(HasSubstr("'b'"), HasSubstr("strange"))));
}

TEST(Validate, TheLongNameOfTheDefaultDomainIsTheDefaultDomain) {
  OnnxBuilder b = Chain();
  b.proto().mutable_opset_import(0)->set_domain("ai.onnx");
  EXPECT_OK(LoadBuilt(b));
}

TEST(Validate, AReadBeforeTheWriteIsAnErrorOfOrder) {
  OnnxBuilder b = Chain();
  b.proto().mutable_graph()->mutable_node()->SwapElements(0, 1);
  EXPECT_THAT(LoadBuilt(b), StatusIs(kInvalid, AllOf(HasSubstr("topological"), HasSubstr("'a'"))));
}

TEST(Validate, ACycleIsNamedNodeByNode) {
  OnnxBuilder b = Chain();
  b.proto().mutable_graph()->mutable_node(0)->set_input(0, "b");
  EXPECT_THAT(LoadBuilt(b),
              StatusIs(kInvalid, AllOf(HasSubstr("cycle"), HasSubstr("'a'"), HasSubstr("'b'"))));
}

TEST(Validate, NamesAreAssignedOnce) {
  OnnxBuilder twice = Chain();
  twice.Weight("w", {1}).Weight("w", {1});
  EXPECT_THAT(LoadBuilt(twice), StatusIs(kInvalid, HasSubstr("two initializers")));
  OnnxBuilder over = Chain();
  over.Weight("a", {1});
  EXPECT_THAT(LoadBuilt(over), StatusIs(kInvalid, HasSubstr("also an input or initializer")));
  OnnxBuilder input = Chain();
  input.Input("x", {-1, 4});
  EXPECT_THAT(LoadBuilt(input), StatusIs(kInvalid, HasSubstr("declared twice")));
  OnnxBuilder output = Chain();
  output.Output("nothing");
  EXPECT_THAT(LoadBuilt(output), StatusIs(kInvalid, HasSubstr("produced by nothing")));
}

TEST(Validate, InputsNeedKnownSizesAfterTheBatch) {
  OnnxBuilder b = Chain();
  b.proto()
      .mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(1)
      ->set_dim_param("width");
  EXPECT_THAT(LoadBuilt(b), StatusIs(kInvalid, AllOf(HasSubstr("axis 1"), HasSubstr("'width'"))));
  OnnxBuilder scalar = Chain();
  scalar.proto()
      .mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->clear_shape();
  EXPECT_THAT(LoadBuilt(scalar), StatusIs(kInvalid, HasSubstr("no shape")));
  OnnxBuilder half = Chain();
  half.proto()
      .mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->set_elem_type(onnx::TensorProto::FLOAT16);
  EXPECT_THAT(LoadBuilt(half), StatusIs(kInvalid, AllOf(HasSubstr("'x'"), HasSubstr("float16"))));
}

TEST(Validate, DataMustFitTheDims) {
  auto with = [](auto change) {
    OnnxBuilder b = Chain();
    b.Floats("w", {2, 2}, {1, 2, 3, 4});
    change(b.proto().mutable_graph()->mutable_initializer(0));
    return LoadBuilt(b);
  };
  EXPECT_THAT(with([](auto* t) { t->clear_raw_data(); }),
              StatusIs(kInvalid, AllOf(HasSubstr("'w'"), HasSubstr("0 elements"))));
  EXPECT_THAT(with([](auto* t) { t->set_data_type(onnx::TensorProto::DOUBLE); }),
              StatusIs(kInvalid, HasSubstr("need 32")));
  EXPECT_THAT(with([](auto* t) { t->set_dims(0, int64_t{1} << 40); }),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("limit")));
  EXPECT_THAT(with([](auto* t) { t->set_dims(0, -2); }), StatusIs(kInvalid, HasSubstr("negative")));
}

TEST(Validate, Float16WeightsAreRefusedByName) {
  OnnxBuilder b;
  b.Input("x", {-1, 2}).Output("y").Floats("w", {2, 1}, {1, 2});
  auto* w = b.proto().mutable_graph()->mutable_initializer(0);
  w->set_data_type(onnx::TensorProto::FLOAT16);
  w->set_raw_data(std::string(4, '\0'));
  b.Node("MatMul", {"x", "w"}, {"y"});
  EXPECT_THAT(LoadBuilt(b), StatusIs(absl::StatusCode::kUnimplemented,
                                     AllOf(HasSubstr("'w'"), HasSubstr("float16"))));
}

}  // namespace
}  // namespace pipedream
