#include "tests/support/random_network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "common/base/random.h"
#include "common/base/status.h"
#include "tests/support/npy_file.h"
#include "tests/support/onnx_builder.h"

namespace pipedream {
namespace {

constexpr int64_t kSide = 8;
constexpr int64_t kNetworkClasses = 4;

std::string LabelName(size_t head) { return fmt::format("y{}", head); }

// The value of what this file made itself.
template <typename T>
T Checked(absl::StatusOr<T> made, const std::string& network) {
  if (!made.ok()) fmt::print(stderr, "{}\n{}\n", network, made.status().ToString());
  PIPEDREAM_CHECK(made.ok());
  return *std::move(made);
}

int64_t Product(const std::vector<int64_t>& dims) {
  int64_t product = 1;
  for (int64_t d : dims) product *= d;
  return product;
}

}  // namespace

class RandomNetworkMaker {
 public:
  RandomNetworkMaker(const RandomNetworkOptions& options, RandomNetwork* network)
      : options_(options), random_(options.seed), network_(*network) {}

  void Make() {
    network_.channels_ = random_.Between(1, 3);
    builder_.Input("x", {-1, network_.channels_, kSide, kSide});
    values_.push_back({"x", network_.channels_, kSide});
    // Parameters come first, so that there is something to train in every head's past.
    if (!random_.Chance(4)) AddConv(values_[0]);
    const int layers = random_.Between(4, 12);
    for (int i = 0; i < layers; ++i) AddLayer();
    AddHeads();
    builder_.Save(network_.folder_ + "/model.onnx");
  }

 private:
  struct Value {
    std::string name;
    int64_t channels, side;
    bool read = false;
  };

  std::vector<float> Uniform(const std::vector<int64_t>& dims, float low, float high) {
    std::vector<float> out(Product(dims));
    const uint64_t stream = stream_++;
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = low + (high - low) * UniformFloat(Philox(options_.seed, stream, i)[0]);
    return out;
  }

  std::string Weights(const std::string& name, const std::vector<int64_t>& dims, float low,
                      float high) {
    builder_.Floats(name, dims, Uniform(dims, low, high));
    return name;
  }

  // A fresh weight, or one of the same shape that another node reads.
  std::string Kernel(const std::string& name, const std::vector<int64_t>& dims) {
    auto& known = kernels_.emplace_back(name, dims);
    if (options_.shares_parameters) {
      for (const auto& [other, shape] : kernels_) {
        if (shape != dims || other == name) continue;
        known.first = other;
        network_.text_ += fmt::format("({}) ", other);
        return other;
      }
    }
    const float limit = std::sqrt(3.0f / static_cast<float>(Product(dims) / dims[0]));
    return Weights(name, dims, -limit, limit);
  }

  // Mostly the newest value, now and then an earlier one.
  Value& Pick() {
    if (!random_.Chance(3)) return values_.back();
    return values_[random_.Between(0, static_cast<int>(values_.size()) - 1)];
  }

  std::string NextName(const std::string& op) {
    network_.text_ += op + " ";
    return fmt::format("{}{}", op, count_++);
  }

  OnnxNode Node(const std::string& op, const std::string& name,
                const std::vector<std::string>& inputs) {
    network_.text_ += fmt::format("{}; ", fmt::join(inputs, ","));
    return builder_.Node(op, inputs, {name});
  }

  void AddConv(Value& x) {
    x.read = true;
    const int64_t in = x.channels, side = x.side;
    const int64_t out = options_.shares_parameters ? 4 : random_.Between(2, 20);
    const int64_t kernel = !options_.shares_parameters && random_.Chance(3) ? 1 : 3;
    const std::string name = NextName("conv"), input = x.name;
    std::vector<std::string> inputs = {input, Kernel(name + ".weight", {out, in, kernel, kernel})};
    if (random_.Chance(2)) inputs.push_back(Weights(name + ".bias", {out}, -0.2f, 0.2f));
    const int64_t pad = kernel / 2;
    Node("Conv", name, inputs)
        .Ints("kernel_shape", {kernel, kernel})
        .Ints("pads", {pad, pad, pad, pad});
    values_.push_back({name, out, side});
  }

  void AddBatchNorm(Value& x) {
    const std::vector<int64_t> dims = {x.channels};
    const std::string name = NextName("norm");
    Node("BatchNormalization", name,
         {x.name, Weights(name + ".scale", dims, 0.5f, 1.5f),
          Weights(name + ".bias", dims, -0.5f, 0.5f), Weights(name + ".mean", dims, -0.1f, 0.1f),
          Weights(name + ".variance", dims, 0.9f, 1.1f)});
    Push(x, name, x.channels, x.side);
  }

  void AddUnary(Value& x) {
    static const char* const kOps[] = {"Relu", "Tanh", "Sigmoid", "HardSwish"};
    const char* op = kOps[random_.Between(0, 3)];
    const std::string name = NextName(op);
    Node(op, name, {x.name});
    Push(x, name, x.channels, x.side);
  }

  void AddPool(Value& x) {
    const bool max = random_.Chance(2);
    const int64_t stride = x.side >= 4 ? random_.Between(1, 2) : 1;
    const std::string name = NextName(max ? "maxpool" : "avgpool");
    OnnxNode node = Node(max ? "MaxPool" : "AveragePool", name, {x.name});
    node.Ints("kernel_shape", {3, 3}).Ints("strides", {stride, stride}).Ints("pads", {1, 1, 1, 1});
    if (!max) node.Int("count_include_pad", random_.Between(0, 1));
    Push(x, name, x.channels, (x.side - 1) / stride + 1);
  }

  void AddLrn(Value& x) {
    const std::string name = NextName("lrn");
    Node("LRN", name, {x.name}).Int("size", random_.Between(2, 5)).Float("alpha", 0.1f);
    Push(x, name, x.channels, x.side);
  }

  void AddDropout(Value& x) {
    const std::string name = NextName("dropout");
    builder_.Floats(name + ".ratio", {}, {0.25f});
    Node("Dropout", name, {x.name, name + ".ratio"});
    Push(x, name, x.channels, x.side);
  }

  // A sum or a concatenation with another value, if one fits.
  bool AddJoin(Value& x) {
    const bool concat = !options_.shares_parameters && random_.Chance(2);
    std::vector<size_t> fitting;
    for (size_t i = 0; i < values_.size(); ++i) {
      const Value& v = values_[i];
      if (&v != &x && v.side == x.side && (concat || v.channels == x.channels))
        fitting.push_back(i);
    }
    if (fitting.empty()) return false;
    Value& y = values_[fitting[random_.Next() % fitting.size()]];
    if (x.channels + y.channels > 40) return false;
    y.read = true;
    const std::string name = NextName(concat ? "concat" : "add");
    OnnxNode node = Node(concat ? "Concat" : "Add", name, {x.name, y.name});
    if (concat) node.Int("axis", 1);
    Push(x, name, concat ? x.channels + y.channels : x.channels, x.side);
    return true;
  }

  // x times a number per sample and channel that is made of x.
  void AddGate(Value& x) {
    const std::string name = NextName("gate");
    Node("GlobalAveragePool", name + ".mean", {x.name});
    Node("Conv", name + ".linear",
         {name + ".mean", Kernel(name + ".weight", {x.channels, x.channels, 1, 1})})
        .Ints("kernel_shape", {1, 1});
    Node("Sigmoid", name + ".sigmoid", {name + ".linear"});
    Node("Mul", name, {x.name, name + ".sigmoid"});
    Push(x, name, x.channels, x.side);
  }

  void Push(Value& x, const std::string& name, int64_t channels, int64_t side) {
    x.read = true;
    values_.push_back({name, channels, side});
  }

  void AddLayer() {
    Value& x = Pick();
    switch (random_.Between(0, 10)) {
      case 0:
        return AddBatchNorm(x);
      case 1:
      case 2:
        return AddUnary(x);
      case 3:
        return AddPool(x);
      case 4:
        return AddLrn(x);
      case 5:
        return AddDropout(x);
      case 6:
        return AddGate(x);
      case 7:
      case 8:
        if (AddJoin(x)) return;
        break;
      default:
        break;
    }
    AddConv(x);
  }

  // What nobody reads gets a head with a loss of its own.
  void AddHeads() {
    const size_t values = values_.size();
    for (size_t i = 0; i < values; ++i) {
      if (values_[i].read || i == 0) continue;
      const Value& x = values_[i];
      const std::string name = NextName("head");
      int64_t width = x.channels * x.side * x.side;
      std::string flat = x.name;
      if (random_.Chance(2)) {
        Node("GlobalAveragePool", name + ".mean", {flat});
        flat = name + ".mean";
        width = x.channels;
      }
      Node("Flatten", name + ".flat", {flat});
      Node("Gemm", name,
           {name + ".flat", Kernel(name + ".weight", {kNetworkClasses, width}),
            Weights(name + ".bias", {kNetworkClasses}, -0.2f, 0.2f)})
          .Int("transB", 1);
      builder_.Output(name, {-1, kNetworkClasses});
      LossTerm term;
      term.kind = random_.Chance(3) ? LossTerm::Kind::kMse : LossTerm::Kind::kCrossEntropy;
      term.output = name;
      term.label = LabelName(network_.loss_.size());
      term.weight = 1.0 / static_cast<double>(1 + network_.loss_.size());
      network_.loss_.push_back(term);
    }
  }

  const RandomNetworkOptions& options_;
  RandomSource random_;
  RandomNetwork& network_;
  OnnxBuilder builder_;
  std::vector<Value> values_;
  std::vector<std::pair<std::string, std::vector<int64_t>>> kernels_;
  uint64_t stream_ = 0;
  int count_ = 0;
};

RandomNetwork::RandomNetwork(const RandomNetworkOptions& options) {
  folder_ = (std::filesystem::temp_directory_path() / "random-network-XXXXXX").string();
  PIPEDREAM_CHECK(mkdtemp(folder_.data()) != nullptr);
  RandomNetworkMaker(options, this).Make();
  model_ = Checked(Model::Load(folder_ + "/model.onnx"), text_);
  train_ = WriteSplit("train", options.train_samples, options.seed);
  evaluation_ = WriteSplit("test", options.evaluation_samples, options.seed + 1);
}

RandomNetwork::~RandomNetwork() {
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

std::shared_ptr<const Dataset> RandomNetwork::WriteSplit(const std::string& split, int64_t samples,
                                                         uint64_t seed) const {
  std::vector<ColumnSpec> columns;
  std::vector<ColumnRequirement> requirements;
  auto path_of = [&](const std::string& name) {
    ColumnSpec column;
    column.name = name;
    column.path = fmt::format("{}/{}-{}.npy", folder_, split, name);
    columns.push_back(column);
    return column.path;
  };
  auto write_floats = [&](const std::string& name, const Shape& sample, uint64_t stream) {
    std::vector<float> values(samples * sample.elements());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = 2 * UniformFloat(Philox(seed, stream, i)[0]) - 1;
    WriteNpy(path_of(name), "<f4", fmt::format("({}, {})", samples, sample.elements()),
             values.data(), values.size() * sizeof(float));
    requirements.push_back({name, DataType::kFloat32, sample, 0});
  };
  write_floats("x", {channels_, kSide, kSide}, 1000);
  for (size_t h = 0; h < loss_.size(); ++h) {
    if (loss_[h].kind == LossTerm::Kind::kMse) {
      write_floats(loss_[h].label, {kNetworkClasses}, 1001 + h);
      continue;
    }
    std::vector<int64_t> labels(samples);
    for (int64_t i = 0; i < samples; ++i)
      labels[i] = Philox(seed, 1001 + h, i)[0] % kNetworkClasses;
    WriteNpy(path_of(loss_[h].label), "<i8", fmt::format("({},)", samples), labels.data(),
             labels.size() * sizeof(int64_t));
    requirements.push_back({loss_[h].label, DataType::kInt64, Shape{}, kNetworkClasses});
  }
  return Checked(Dataset::Open(columns, requirements), text_);
}

std::vector<int> RandomCut(const TrainingGraph& training, int stages, RandomSource* random) {
  const Graph& graph = training.graph;
  const bool consecutive = random->Chance(2);
  std::vector<int> stage_of;
  std::set<int> used;
  for (int n = 0; n < training.forward_nodes; ++n) {
    int least = consecutive && n > 0 ? stage_of.back() : 0;
    for (ValueId input : graph.node(NodeId(n)).inputs) {
      if (input == kNoValue || graph.value(input).producer == kNoNode) continue;
      least = std::max(least, stage_of[graph.value(input).producer.value()]);
    }
    const int nodes_per_stage = std::max(1, training.forward_nodes / stages);
    const int ahead = random->Chance(nodes_per_stage) ? 1 : 0;
    stage_of.push_back(std::min(stages - 1, least + ahead));
    // Statistics are updated where they are made, and evaluation has no dropout.
    const std::string& op = graph.node(NodeId(n)).op;
    if (op != "UpdateRunningStatistics" && op != "Dropout") used.insert(stage_of.back());
  }
  // The others' nodes go to the stage before, the first one's to the one behind.
  for (int& stage : stage_of) {
    const auto behind = std::distance(used.begin(), used.upper_bound(stage));
    stage = static_cast<int>(std::max<std::ptrdiff_t>(behind - 1, 0));
  }
  return stage_of;
}

}  // namespace pipedream
