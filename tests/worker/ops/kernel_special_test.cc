// What the reference comparison cannot show: randomness, state, errors, threads, layouts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "common/base/random.h"
#include "tests/worker/ops/kernel_cases.h"
#include "tests/worker/ops/kernel_runner.h"
#include "tests/worker/ops/spatial_cases.h"

namespace pipedream {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::vector<float> Ramp(int64_t n) {
  std::vector<float> out(n);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(i + 1);
  return out;
}

class Dropout : public testing::Test {
 protected:
  // Output of one node over rows of `x`, whose samples are `ids`.
  std::vector<float> Run(const std::string& op, const std::vector<int64_t>& ids, int64_t row,
                         const std::vector<float>& x, RunContext context, int threads = 1) {
    GraphBuilder builder;
    Net net(builder);
    const ValueId in = net.In("x", Shape({static_cast<int64_t>(ids.size()), row}));
    const ValueId y =
        net.Op(op, {in}, Attributes().Set("ratio", kRatio).Set("key", int64_t{77}))[0];
    EXPECT_OK(net.status());
    Graph graph = std::move(builder).Build().value();
    context.sample_ids = ids;
    RunOptions options;
    options.poison = std::numeric_limits<float>::quiet_NaN();
    options.context = &context;
    auto backend = MakeOneDnnBackend();
    backend->SetThreads(threads);
    KernelRunner runner(*backend, graph, options);
    runner.Give(in, x.data());
    EXPECT_OK(runner.Run());
    return runner.Read<float>(y);
  }
  static constexpr double kRatio = 0.25;
  const RunContext context_{.seed = 5, .step = 9, .sample_ids = {}};
};

TEST_F(Dropout, KeepsTheStatedShareAndScalesIt) {
  const std::vector<float> ones(4 * 10001, 1.0f);
  const std::vector<float> y = Run("Dropout", {3, 1, 4, 15}, 10001, ones, context_);
  const auto kept = std::count_if(y.begin(), y.end(), [](float v) { return v != 0; });
  EXPECT_NEAR(static_cast<double>(kept) / y.size(), 1 - kRatio, 0.01);
  for (float v : y) ASSERT_TRUE(v == 0 || v == static_cast<float>(1 / (1 - kRatio)));
}

TEST_F(Dropout, MaskBelongsToTheSampleNotToItsPlaceInTheBatch) {
  const int64_t row = 103;
  const std::vector<float> ones(3 * row, 1.0f);
  const std::vector<float> batch = Run("Dropout", {8, 2, 6}, row, ones, context_);
  const std::vector<float> other = Run("Dropout", {2, 9, 8}, row, ones, context_, 2);
  const std::vector<float> alone =
      Run("Dropout", {6}, row, std::vector<float>(row, 1.0f), context_);
  EXPECT_TRUE(std::equal(batch.begin(), batch.begin() + row, other.begin() + 2 * row));
  EXPECT_TRUE(std::equal(batch.begin() + row, batch.begin() + 2 * row, other.begin()));
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), batch.begin() + 2 * row));
  EXPECT_FALSE(std::equal(batch.begin(), batch.begin() + row, batch.begin() + row));
}

TEST_F(Dropout, GradientUsesTheForwardMask) {
  const std::vector<float> x(2 * 57, 3.0f);
  EXPECT_EQ(Run("Dropout", {1, 2}, 57, x, context_), Run("DropoutGrad", {1, 2}, 57, x, context_));
}

TEST_F(Dropout, MaskChangesWithStepAndSeed) {
  const std::vector<float> x(64, 1.0f);
  RunContext next_step = context_, next_seed = context_;
  ++next_step.step;
  ++next_seed.seed;
  const std::vector<float> y = Run("Dropout", {1}, 64, x, context_);
  EXPECT_NE(y, Run("Dropout", {1}, 64, x, next_step));
  EXPECT_NE(y, Run("Dropout", {1}, 64, x, next_seed));
}

TEST_F(Dropout, FollowsItsStatedCounters) {
  const int64_t row = 10, id = 12;
  const std::vector<float> y = Run("Dropout", {id}, row, Ramp(row), context_);
  const auto mixed = Philox(context_.seed, 77, 9);
  const uint64_t stream = mixed[0] | static_cast<uint64_t>(mixed[1]) << 32;
  for (int64_t i = 0; i < row; ++i) {
    const auto bits = Philox(context_.seed, stream, static_cast<uint64_t>(id * 3 + i / 4));
    const bool kept = UniformFloat(bits[i % 4]) >= 0.25f;
    EXPECT_EQ(y[i], kept ? static_cast<float>(i + 1) * (4.0f / 3.0f) : 0.0f) << i;
  }
}

TEST(UpdateRunningStatistics, MovesTheStateTowardsTheBatchWithUnbiasedVariance) {
  GraphBuilder builder;
  Net net(builder);
  const Shape two({2});
  const ValueId mean = net.In("mean", two), variance = net.In("variance", two);
  const ValueId running_mean =
      builder.AddState("running_mean", Tensor::FromVector<float>(two, {0, 0}));
  const ValueId running_variance =
      builder.AddState("running_variance", Tensor::FromVector<float>(two, {0, 0}));
  net.Op("UpdateRunningStatistics", {mean, variance, running_mean, running_variance},
         Attributes().Set("momentum", 0.75).Set("count", int64_t{5}));
  ASSERT_OK(net.status());
  Graph graph = std::move(builder).Build().value();
  auto backend = MakeOneDnnBackend();
  KernelRunner runner(*backend, graph, {});
  runner.Give(mean, std::vector<float>{4, 8}.data());
  runner.Give(variance, std::vector<float>{4, 8}.data());
  runner.Give(running_mean, std::vector<float>{0, 4}.data());
  runner.Give(running_variance, std::vector<float>{1, 1}.data());
  ASSERT_OK(runner.Run());
  EXPECT_EQ(runner.Read<float>(running_mean), (std::vector<float>{1, 5}));
  EXPECT_EQ(runner.Read<float>(running_variance), (std::vector<float>{2, 3.25}));
}

absl::Status RunCrossEntropy(const std::vector<int64_t>& labels, const RunContext* context) {
  GraphBuilder builder;
  Net net(builder);
  const auto n = static_cast<int64_t>(labels.size());
  const ValueId logits = net.In("logits", Shape({n, 10}));
  const ValueId in = net.In("labels", Shape({n}), DataType::kInt64);
  net.Op("CrossEntropy", {logits, in});
  Graph graph = std::move(builder).Build().value();
  auto backend = MakeOneDnnBackend();
  RunOptions options;
  options.context = context;
  KernelRunner runner(*backend, graph, options);
  runner.Give(logits, std::vector<float>(n * 10, 0.5f).data());
  runner.Give(in, labels.data());
  return runner.Run();
}

TEST(CrossEntropy, LabelOutOfRangeIsNamedWithItsSample) {
  const std::vector<int64_t> ids = {70, 80, 90};
  const RunContext context{.seed = 0, .step = 0, .sample_ids = ids};
  EXPECT_THAT(RunCrossEntropy({3, 10, 4}, &context),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("label 10"), HasSubstr("sample 80"), HasSubstr("10 classes"),
                             HasSubstr("0 to 9"))));
  EXPECT_THAT(RunCrossEntropy({3, 1, -1}, &context),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("label -1"), HasSubstr("sample 90"))));
  EXPECT_OK(RunCrossEntropy({0, 9, 4}, &context));
}

// Rows of a table by one row of indices per sample.
absl::Status RunGather(const std::string& op, const std::vector<int64_t>& indices,
                       const RunContext* context, std::vector<float>* result) {
  GraphBuilder builder;
  Net net(builder);
  const ValueId from = net.In("from", op == "Gather" ? Shape({4, 2}) : Shape({3, 2, 2}));
  const ValueId at = net.In("indices", Shape({3, 2}), DataType::kInt64);
  Attributes attributes;
  attributes.Set("axis", int64_t{0}).Set("x_shape", Ints{4, 2});
  const ValueId y = net.Op(op, {from, at}, attributes)[0];
  PD_RETURN_IF_ERROR(net.status());
  Graph graph = std::move(builder).Build().value();
  auto backend = MakeOneDnnBackend();
  RunOptions options;
  options.context = context;
  KernelRunner runner(*backend, graph, options);
  runner.Give(from, Ramp(12).data());
  runner.Give(at, indices.data());
  PD_RETURN_IF_ERROR(runner.Run());
  *result = runner.Read<float>(y);
  return absl::OkStatus();
}

TEST(Gather, CountsNegativeIndicesFromTheEnd) {
  std::vector<float> y;
  ASSERT_OK(RunGather("Gather", {0, -1, 3, -4, 1, 1}, nullptr, &y));
  EXPECT_EQ(y, (std::vector<float>{1, 2, 7, 8, 7, 8, 1, 2, 3, 4, 3, 4}));
  std::vector<float> dx;
  ASSERT_OK(RunGather("GatherGrad", {0, -1, 3, -4, 1, 1}, nullptr, &dx));
  EXPECT_EQ(dx, (std::vector<float>{1 + 7, 2 + 8, 9 + 11, 10 + 12, 0, 0, 3 + 5, 4 + 6}));
}

TEST(Gather, IndexOutOfRangeIsNamedWithItsSample) {
  const std::vector<int64_t> ids = {70, 80, 90};
  const RunContext context{.seed = 0, .step = 0, .sample_ids = ids};
  std::vector<float> y;
  for (const char* op : {"Gather", "GatherGrad"}) {
    EXPECT_THAT(RunGather(op, {0, 1, 2, 4, 0, 0}, &context, &y),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("index 4 of sample 80"), HasSubstr("4 rows"),
                               HasSubstr("0 to 3"))));
    EXPECT_THAT(RunGather(op, {0, 1, 2, 3, 0, -5}, &context, &y),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("index -5 of sample 90")));
  }
}

TEST(Where, InfinitiesThatAreNotChosenDoNotShow) {
  GraphBuilder builder;
  Net net(builder);
  const ValueId c = net.In("c", Shape({4}), DataType::kBool);
  const ValueId a = net.In("a", Shape()), b = net.In("b", Shape({2, 4}));
  const ValueId y = net.Op("Where", {c, a, b})[0];
  const ValueId softmax = net.Op("Softmax", {y}, Attributes().Set("axis", int64_t{1}))[0];
  ASSERT_OK(net.status());
  Graph graph = std::move(builder).Build().value();
  auto backend = MakeOneDnnBackend();
  KernelRunner runner(*backend, graph, {});
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float low = -kInfinity;
  runner.Give(c, std::vector<uint8_t>{0, 1, 0, 1}.data());
  runner.Give(a, &low);
  runner.Give(b, std::vector<float>{5, nan, 5, kInfinity, 7, 0, 7, 0}.data());
  ASSERT_OK(runner.Run());
  EXPECT_EQ(runner.Read<float>(y), (std::vector<float>{5, low, 5, low, 7, low, 7, low}));
  EXPECT_EQ(runner.Read<float>(softmax), (std::vector<float>{0.5f, 0, 0.5f, 0, 0.5f, 0, 0.5f, 0}));
}

// The approximation against libm, over all binades that matter.
TEST(Elementwise, ErfIsWithinThreeUlps) {
  std::vector<float> xs;
  for (float x = 1e-6f; x < 6; x *= 1.0003f) {
    xs.push_back(x);
    xs.push_back(-x);
  }
  GraphBuilder builder;
  Net net(builder);
  const ValueId x = net.In("x", Shape({static_cast<int64_t>(xs.size())}));
  const ValueId y = net.Op("Erf", {x})[0];
  ASSERT_OK(net.status());
  Graph graph = std::move(builder).Build().value();
  auto backend = MakeOneDnnBackend();
  KernelRunner runner(*backend, graph, {});
  runner.Give(x, xs.data());
  ASSERT_OK(runner.Run());
  const std::vector<float> result = runner.Read<float>(y);
  for (size_t i = 0; i < xs.size(); ++i) {
    const double expected = std::erf(static_cast<double>(xs[i]));
    ASSERT_NEAR(result[i], expected, 3 * 1.2e-7 * std::fabs(expected)) << "erf of " << xs[i];
  }
}

TEST(Elementwise, NotANumberIsNotHidden) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* op : {"Relu", "Sigmoid", "Tanh", "Erf", "Gelu", "GeluTanh", "Sqrt", "Pow",
                         "HardSwish", "HardSigmoid", "Clip", "Softmax"}) {
    GraphBuilder builder;
    Net net(builder);
    const ValueId x = net.In("x", Shape({1, 19}));
    Attributes attributes;
    attributes.Set("axis", int64_t{1}).Set("alpha", 0.2).Set("beta", 0.5);
    attributes.Set("min", 0.0).Set("max", 6.0).Set("exponent", 2.0);
    const ValueId y = net.Op(op, {x}, attributes)[0];
    ASSERT_OK(net.status());
    Graph graph = std::move(builder).Build().value();
    auto backend = MakeOneDnnBackend();
    KernelRunner runner(*backend, graph, {});
    std::vector<float> values(19, 1.0f);
    values[3] = nan;
    values[18] = nan;
    runner.Give(x, values.data());
    ASSERT_OK(runner.Run());
    const std::vector<float> result = runner.Read<float>(y);
    EXPECT_TRUE(std::isnan(result[3])) << op;
    EXPECT_TRUE(std::isnan(result[18])) << op;
  }
}

TEST(Elementwise, ExtremesStayFiniteAndExact) {
  GraphBuilder builder;
  Net net(builder);
  const ValueId x = net.In("x", Shape({1, 4}));
  const ValueId sigmoid = net.Op("Sigmoid", {x})[0], tanh = net.Op("Tanh", {x})[0];
  Attributes axis;
  axis.Set("axis", int64_t{1});
  const ValueId softmax = net.Op("Softmax", {x}, axis)[0];
  ASSERT_OK(net.status());
  Graph graph = std::move(builder).Build().value();
  auto backend = MakeOneDnnBackend();
  KernelRunner runner(*backend, graph, {});
  runner.Give(x, std::vector<float>{-1000, -100, 100, 1000}.data());
  ASSERT_OK(runner.Run());
  EXPECT_EQ(runner.Read<float>(sigmoid)[0], 0);
  EXPECT_EQ(runner.Read<float>(sigmoid)[3], 1);
  EXPECT_EQ(runner.Read<float>(tanh), (std::vector<float>{-1, -1, 1, 1}));
  EXPECT_EQ(runner.Read<float>(softmax), (std::vector<float>{0, 0, 0, 1}));
}

// A small block of a residual network: layouts must stay blocked between its operators.
TEST(Layouts, StayBlockedThroughConvolutionNormalizationAndPooling) {
  GraphBuilder builder;
  Net net(builder);
  const Shape channels({64});
  const ValueId x = net.In("x", {2, 64, 14, 14});
  const ConvCase conv{"", {2, 64, 14, 14}, {64, 64, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1, false};
  const ValueId w = net.Weight("w", conv.w);
  const ValueId a = net.Op("Conv", {x, w}, ConvAttributes(conv))[0];
  const ValueId scale = net.Weight("scale", channels), bias = net.Weight("bias", channels);
  const ValueId b =
      net.Op("BatchNormalization", {a, scale, bias}, Attributes().Set("epsilon", 1e-5))[0];
  const ValueId c = net.Op("Relu", {b})[0];
  const ValueId d = net.Op("Add", {c, a})[0];
  const PoolCase pool{"", {}, {3, 3}, {2, 2}, {1, 1, 1, 1}};
  const ValueId e = net.Op("MaxPool", {d}, PoolAttributes(pool).Set("dilations", Ints{1, 1}))[0];
  const ValueId f = net.Op("Reshape", {e}, Attributes().Set("shape", Ints{2, 64 * 49}))[0];
  ASSERT_OK(net.status());
  Graph graph = std::move(builder).Build().value();
  auto backend = MakeOneDnnBackend();
  RunOptions options;
  options.any_layout = true;
  KernelRunner runner(*backend, graph, options);
  for (const Value& value : graph.values()) {
    if (value.kind == ValueKind::kComputed) continue;
    runner.Give(graph.FindValue(value.name),
                std::vector<float>(value.shape.elements(), 0.5f).data());
  }
  ASSERT_OK(runner.Run());
  const bool blocked = runner.placed(a).spec.layout != nullptr;
  for (ValueId id : {b, c, d, e}) {
    EXPECT_EQ(runner.placed(id).spec.layout != nullptr, blocked) << graph.value(id).name;
  }
  EXPECT_EQ(runner.placed(f).spec.layout, nullptr);
}

TEST(Threads, APreparedKernelRunsOnAnyThread) {
  GraphBuilder builder;
  const ConvCase conv{"", {2, 16, 14, 14}, {32, 16, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
  Net net(builder);
  const ValueId x = net.In("x", conv.x), w = net.In("w", conv.w), b = net.In("b", {32});
  net.Op("Conv", {x, w, b}, ConvAttributes(conv));
  ASSERT_OK(net.status());
  Graph graph = std::move(builder).Build().value();
  auto backend = MakeOneDnnBackend();
  std::vector<OfferedInput> offered;
  for (ValueId id : {x, w, b}) {
    offered.push_back({TensorSpec::Plain(DataType::kFloat32, graph.value(id).shape), false});
  }
  ASSERT_OK_AND_ASSIGN(PreparedKernel prepared,
                       backend->Prepare(graph, graph.node(NodeId(0)), offered));
  std::vector<std::unique_ptr<Buffer>> inputs;
  std::vector<const void*> in;
  for (const TensorSpec& spec : prepared.inputs) {
    inputs.push_back(std::make_unique<Buffer>(spec.bytes, 0.25f));
    in.push_back(inputs.back()->data());
  }
  Buffer here(prepared.outputs[0].bytes, 1), there(prepared.outputs[0].bytes, 2);
  Buffer scratch(prepared.scratch_bytes, 3);
  auto run = [&](Buffer& output) {
    void* out = output.data();
    return prepared.kernel->Run({in, {&out, 1}, scratch.data(), nullptr});
  };
  ASSERT_OK(run(here));
  absl::Status status;
  std::thread([&] { status = run(there); }).join();
  ASSERT_OK(status);
  EXPECT_TRUE(here.SameBytes(there));
}

TEST(Backend, NamesAnOperatorThatItLacks) {
  Graph graph;
  Node node;
  node.name = "n7";
  node.op = "Einsum";
  EXPECT_THAT(MakeOneDnnBackend()->Prepare(graph, node, {}),
              StatusIs(absl::StatusCode::kUnimplemented,
                       AllOf(HasSubstr("Einsum"), HasSubstr("n7"), HasSubstr("onednn"))));
}

}  // namespace
}  // namespace pipedream
