#include "examples/models/networks.h"

#include <fmt/core.h>

#include "examples/models/onnx_writer.h"

namespace pipedream {
namespace {

// LeCun et al., 1998, widened, with ReLU and max pooling; for 28x28 grey images.
bool WriteLeNet(const Network& network, uint64_t seed, const std::string& path) {
  OnnxWriter w("lenet", network.sample, seed);
  std::string x = w.Relu("relu1", w.Conv("conv1", "x", 1, 16, 5, 1, 2, true));
  x = w.MaxPool("pool1", x, 2, 2, 0);
  x = w.Relu("relu2", w.Conv("conv2", x, 16, 32, 5, 1, 2, true));
  x = w.MaxPool("pool2", x, 2, 2, 0);
  x = w.Relu("relu3", w.Linear("fc1", w.Flatten("flatten", x), 1568, 128));
  return w.Write(w.Linear("fc2", x, 128, network.classes), network.classes, path);
}

// Krizhevsky, 2014 ("One weird trick"), the single-column form.
bool WriteAlexNet(const Network& network, uint64_t seed, const std::string& path) {
  OnnxWriter w("alexnet", network.sample, seed);
  std::string x = w.Relu("relu1", w.Conv("conv1", "x", 3, 64, 11, 4, 2, true));
  x = w.MaxPool("pool1", x, 3, 2, 0);
  x = w.Relu("relu2", w.Conv("conv2", x, 64, 192, 5, 1, 2, true));
  x = w.MaxPool("pool2", x, 3, 2, 0);
  x = w.Relu("relu3", w.Conv("conv3", x, 192, 384, 3, 1, 1, true));
  x = w.Relu("relu4", w.Conv("conv4", x, 384, 256, 3, 1, 1, true));
  x = w.Relu("relu5", w.Conv("conv5", x, 256, 256, 3, 1, 1, true));
  x = w.Flatten("flatten", w.MaxPool("pool5", x, 3, 2, 0));
  x = w.Relu("relu6", w.Linear("fc6", w.Dropout("drop6", x, 0.5f), 256 * 6 * 6, 4096));
  x = w.Relu("relu7", w.Linear("fc7", w.Dropout("drop7", x, 0.5f), 4096, 4096));
  return w.Write(w.Linear("fc8", x, 4096, network.classes), network.classes, path);
}

// Simonyan and Zisserman, 2014, configuration D.
bool WriteVgg16(const Network& network, uint64_t seed, const std::string& path) {
  OnnxWriter w("vgg16", network.sample, seed);
  std::string x = "x";
  int64_t in = 3;
  int block = 1;
  for (auto [channels, layers] :
       {std::pair<int64_t, int>{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}) {
    for (int i = 1; i <= layers; ++i) {
      std::string id = fmt::format("{}_{}", block, i);
      x = w.Relu("relu" + id, w.Conv("conv" + id, x, in, channels, 3, 1, 1, true));
      in = channels;
    }
    x = w.MaxPool(fmt::format("pool{}", block++), x, 2, 2, 0);
  }
  x = w.Relu("relu6", w.Linear("fc6", w.Flatten("flatten", x), 512 * 7 * 7, 4096));
  x = w.Relu("relu7", w.Linear("fc7", w.Dropout("drop6", x, 0.5f), 4096, 4096));
  x = w.Linear("fc8", w.Dropout("drop7", x, 0.5f), 4096, network.classes);
  return w.Write(x, network.classes, path);
}

// The same shape for 28x28 grey images: convolutions that compute, matrices that hold the parameters.
bool WriteVgg7(const Network& network, uint64_t seed, const std::string& path) {
  OnnxWriter w("vgg7", network.sample, seed);
  std::string x = "x";
  int64_t in = 1;
  for (auto [block, channels] : {std::pair<int, int64_t>{1, 16}, {2, 32}}) {
    for (int i = 1; i <= 2; ++i) {
      std::string id = fmt::format("{}_{}", block, i);
      x = w.Relu("relu" + id, w.Conv("conv" + id, x, in, channels, 3, 1, 1, true));
      in = channels;
    }
    x = w.MaxPool(fmt::format("pool{}", block), x, 2, 2, 0);
  }
  x = w.Relu("relu3", w.Linear("fc3", w.Flatten("flatten", x), 32 * 7 * 7, 1024));
  x = w.Relu("relu4", w.Linear("fc4", x, 1024, 1024));
  return w.Write(w.Linear("fc5", x, 1024, network.classes), network.classes, path);
}

// He et al., 2015; the stride sits in the 3x3 convolution (v1.5).
bool WriteResNet50(const Network& network, uint64_t seed, const std::string& path) {
  OnnxWriter w("resnet50", network.sample, seed);
  auto conv_bn = [&](const std::string& name, const std::string& x, int64_t in, int64_t out,
                     int64_t kernel, int64_t stride, int64_t pad) {
    return w.BatchNorm(name + ".bn", w.Conv(name, x, in, out, kernel, stride, pad, false), out);
  };
  std::string x = w.Relu("relu1", conv_bn("conv1", "x", 3, 64, 7, 2, 3));
  x = w.MaxPool("pool1", x, 3, 2, 1);
  int64_t in = 64;
  int stage = 1;
  for (auto [width, blocks] : {std::pair<int64_t, int>{64, 3}, {128, 4}, {256, 6}, {512, 3}}) {
    for (int b = 0; b < blocks; ++b) {
      const std::string id = fmt::format("layer{}.{}", stage, b);
      const int64_t stride = b == 0 && stage > 1 ? 2 : 1;
      std::string y = w.Relu(id + ".relu1", conv_bn(id + ".conv1", x, in, width, 1, 1, 0));
      y = w.Relu(id + ".relu2", conv_bn(id + ".conv2", y, width, width, 3, stride, 1));
      y = conv_bn(id + ".conv3", y, width, 4 * width, 1, 1, 0);
      if (b == 0) x = conv_bn(id + ".down", x, in, 4 * width, 1, stride, 0);
      x = w.Relu(id + ".relu3", w.Add(id + ".add", y, x));
      in = 4 * width;
    }
    ++stage;
  }
  x = w.Flatten("flatten", w.GlobalAveragePool("pool", x));
  return w.Write(w.Linear("fc", x, 2048, network.classes), network.classes, path);
}

}  // namespace

const std::vector<Network>& AllNetworks() {
  static const std::vector<Network> networks = {
      {"lenet", "5 layers, 0.2 M parameters, 28x28 grey images", {1, 28, 28}, 10, WriteLeNet},
      {"alexnet", "8 layers, 61 M parameters, ImageNet size", {3, 224, 224}, 1000, WriteAlexNet},
      {"vgg16", "16 layers, 138 M parameters, ImageNet size", {3, 224, 224}, 1000, WriteVgg16},
      {"vgg7", "7 layers in VGG's shape, 2.7 M parameters, 28x28 grey images", {1, 28, 28}, 10,
       WriteVgg7},
      {"resnet50", "50 layers, 26 M parameters, ImageNet size", {3, 224, 224}, 1000, WriteResNet50},
  };
  return networks;
}

}  // namespace pipedream
