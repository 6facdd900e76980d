// Writes networks layer by layer as ONNX, opset 17, with seeded initial weights (PyTorch's default
// initialisation: uniform in +-1/sqrt(fan-in)).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace pipedream {

class OnnxWriter {
 public:
  // One float32 input "x" of shape [N, sample...] with a symbolic batch axis N.
  OnnxWriter(std::string graph_name, std::vector<int64_t> sample, uint64_t seed);
  ~OnnxWriter();

  // Each adds a layer behind tensor `x` and returns the name of its output. Parameters are named
  // "<name>.weight", "<name>.bias" and so on.
  std::string Conv(const std::string& name, const std::string& x, int64_t in, int64_t out,
                   int64_t kernel, int64_t stride, int64_t pad, bool bias);
  std::string BatchNorm(const std::string& name, const std::string& x, int64_t channels);
  std::string Linear(const std::string& name, const std::string& x, int64_t in, int64_t out);
  std::string Relu(const std::string& name, const std::string& x);
  std::string Add(const std::string& name, const std::string& a, const std::string& b);
  std::string MaxPool(const std::string& name, const std::string& x, int64_t kernel, int64_t stride,
                      int64_t pad);
  std::string GlobalAveragePool(const std::string& name, const std::string& x);
  std::string Flatten(const std::string& name, const std::string& x);
  std::string Dropout(const std::string& name, const std::string& x, float ratio);

  // `output` becomes the graph's output "logits" of shape [N, classes]. False if the file cannot be
  // written.
  bool Write(const std::string& output, int64_t classes, const std::string& path);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pipedream
