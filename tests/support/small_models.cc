#include "tests/support/small_models.h"

#include "common/base/status.h"
#include "examples/models/onnx_writer.h"
#include "tests/support/onnx_builder.h"

namespace pipedream {

std::string WriteSkipModel(const std::string& folder) {
  OnnxWriter w("skips", {1, 8, 8}, 4);
  std::string relu1 =
      w.Relu("relu1", w.BatchNorm("bn1", w.Conv("conv1", "x", 1, 4, 3, 1, 1, true), 4));
  std::string x = w.Relu("relu2", w.Conv("conv2", relu1, 4, 4, 3, 1, 1, true));
  x = w.Dropout("drop", w.Add("add1", x, relu1), 0.25f);
  x = w.Relu("relu3", w.BatchNorm("bn3", w.Conv("conv3", x, 4, 4, 3, 1, 1, false), 4));
  x = w.Flatten("flatten", w.MaxPool("pool", w.Add("add2", x, relu1), 2, 2, 0));
  const std::string path = folder + "/skips.onnx";
  PIPEDREAM_CHECK(w.Write(w.Linear("fc", x, 64, 5), 5, path));
  return path;
}

std::string WriteTiedModel(const std::string& folder) {
  OnnxBuilder b;
  b.Input("x", {-1, 1, 8, 8}).Weight("w", {64, 64}).Output("logits", {-1, 64});
  b.Node("Flatten", {"x"}, {"flat"}).Int("axis", 1);
  b.Node("MatMul", {"flat", "w"}, {"first"});
  b.Node("Relu", {"first"}, {"relu"});
  b.Node("MatMul", {"relu", "w"}, {"logits"});
  return b.Save(folder + "/tied.onnx");
}

}  // namespace pipedream
