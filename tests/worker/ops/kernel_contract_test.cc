// Every operator against the double-precision reference: row-major and blocked inputs, in place and
// not, with poisoned outputs and scratch, twice with bit-equal results, which are the same bits
// however the inputs lie.
#include <cmath>
#include <limits>
#include <random>

#include "tests/support/reference_ops.h"
#include "tests/worker/ops/dense_cases.h"
#include "tests/worker/ops/kernel_runner.h"
#include "tests/worker/ops/spatial_cases.h"
#include "worker/ops/onednn/families.h"
#include "worker/ops/onednn/layout.h"

namespace pipedream {
namespace {

using Tag = dnnl::memory::format_tag;

std::vector<KernelCase> AllKernelCases() {
  std::vector<KernelCase> cases = SpatialKernelCases();
  for (KernelCase& c : DenseKernelCases()) cases.push_back(std::move(c));
  return cases;
}

enum class InputLayout { kPlain, kBlocked16, kBlocked8, kChannelsLast };
constexpr InputLayout kInputLayouts[] = {InputLayout::kPlain, InputLayout::kBlocked16,
                                         InputLayout::kBlocked8, InputLayout::kChannelsLast};

TensorSpec LayoutFor(const Value& value, InputLayout layout) {
  const TensorSpec plain = TensorSpec::Plain(value.dtype, value.shape);
  const int rank = value.shape.rank();
  if (layout == InputLayout::kPlain || rank < 3 || rank > 5 || value.dtype != DataType::kFloat32) {
    return plain;
  }
  constexpr Tag kTags[3][3] = {{Tag::nCw16c, Tag::nCw8c, Tag::nwc},
                               {Tag::nChw16c, Tag::nChw8c, Tag::nhwc},
                               {Tag::nCdhw16c, Tag::nCdhw8c, Tag::ndhwc}};
  const Tag tag = kTags[rank - 3][static_cast<int>(layout) - 1];
  return onednn::SpecOf(
      dnnl::memory::desc(onednn::DimsOf(value.shape), dnnl::memory::data_type::f32, tag),
      value.shape);
}

// Values by the case's seed; names that begin with "positive" lie in [0.5, 1.5], others in [-1, 1].
std::map<std::string, ReferenceTensor> RandomInputs(const Graph& graph, int64_t classes,
                                                    uint32_t seed) {
  std::mt19937 random(seed);
  std::map<std::string, ReferenceTensor> given;
  for (const Value& value : graph.values()) {
    if (value.kind != ValueKind::kInput && value.kind != ValueKind::kParameter) continue;
    ReferenceTensor tensor(static_cast<size_t>(value.shape.elements()));
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (double& v : tensor) {
      if (value.dtype == DataType::kInt64)
        v = static_cast<double>(random() % classes);
      else if (value.dtype == DataType::kBool)
        v = static_cast<double>(random() % 2);
      else if (value.name.starts_with("positive"))
        v = uniform(random) * 0.5f + 1.0f;
      else
        v = uniform(random) * (value.name.starts_with("wide") ? 6.0f : 1.0f);
    }
    given[value.name] = std::move(tensor);
  }
  return given;
}

void GiveAll(KernelRunner& runner, const Graph& graph,
             const std::map<std::string, ReferenceTensor>& given) {
  for (const auto& [name, tensor] : given) {
    const ValueId id = graph.FindValue(name);
    if (graph.value(id).dtype == DataType::kInt64) {
      const std::vector<int64_t> values(tensor.begin(), tensor.end());
      runner.Give(id, values.data());
    } else if (graph.value(id).dtype == DataType::kBool) {
      const std::vector<uint8_t> values(tensor.begin(), tensor.end());
      runner.Give(id, values.data());
    } else {
      const std::vector<float> values(tensor.begin(), tensor.end());
      runner.Give(id, values.data());
    }
  }
}

void ExpectClose(const std::vector<float>& actual, const ReferenceTensor& expected,
                 double tolerance, const std::string& name) {
  ASSERT_EQ(actual.size(), expected.size()) << name;
  double largest = 1e-3;
  for (double v : expected) largest = std::max(largest, std::fabs(v));
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * largest) << name << ", element " << i;
  }
}

class KernelContract : public testing::TestWithParam<KernelCase> {
 protected:
  void SetUp() override {
    const KernelCase& kernel_case = GetParam();
    GraphBuilder builder;
    ASSERT_OK(kernel_case.build(builder));
    ASSERT_OK_AND_ASSIGN(graph_, std::move(builder).Build());
    given_ = RandomInputs(graph_, kernel_case.classes, kSeed);
    ASSERT_OK_AND_ASSIGN(expected_, RunReferenceGraph(graph_, given_));
  }

  // Results of all float values, after comparing them with the reference.
  void Check(RunOptions options, std::vector<std::vector<float>>* results) {
    KernelRunner runner(*backend_, graph_, std::move(options));
    GiveAll(runner, graph_, given_);
    ASSERT_OK(runner.Run());
    for (const Node& node : graph_.nodes()) {
      for (ValueId id : node.outputs) {
        if (id == kNoValue) continue;
        const Value& value = graph_.value(id);
        const ReferenceTensor& expected = expected_[id.value()];
        if (value.dtype == DataType::kFloat32) {
          results->push_back(runner.Read<float>(id));
          ExpectClose(results->back(), expected, GetParam().tolerance, value.name);
        } else if (value.dtype == DataType::kInt64) {
          const std::vector<int64_t> actual = runner.Read<int64_t>(id);
          EXPECT_EQ(std::vector<double>(actual.begin(), actual.end()), expected) << value.name;
        }
        if (HasFatalFailure()) return;
      }
    }
  }

  static constexpr uint32_t kSeed = 20240611;
  std::unique_ptr<KernelBackend> backend_ = MakeOneDnnBackend();
  Graph graph_;
  std::map<std::string, ReferenceTensor> given_;
  std::vector<ReferenceTensor> expected_;
};

TEST_P(KernelContract, MatchesTheReferenceInEveryLayoutAndTwiceAlike) {
  for (InputLayout layout : kInputLayouts) {
    for (bool in_place : {false, true}) {
      SCOPED_TRACE(fmt::format("seed {}, layout {}, in place {}", kSeed, static_cast<int>(layout),
                               in_place));
      RunOptions options;
      options.in_place = in_place;
      options.any_layout = in_place;
      options.input_layout = [layout](const Value& value) { return LayoutFor(value, layout); };
      std::vector<std::vector<float>> first, second;
      options.poison = std::numeric_limits<float>::quiet_NaN();
      Check(options, &first);
      if (HasFatalFailure()) return;
      options.poison = 1e30f;
      Check(options, &second);
      if (HasFatalFailure()) return;
      ASSERT_EQ(first.size(), second.size());
      for (size_t i = 0; i < first.size(); ++i) {
        ASSERT_EQ(std::memcmp(first[i].data(), second[i].data(), first[i].size() * 4), 0)
            << "result " << i << " differs between two runs";
      }
    }
  }
}

// What lies blocked behind a convolution comes row-major out of a message, and a network must train
// alike however it is cut.
TEST_P(KernelContract, IsBitEqualHoweverItsInputsLie) {
  std::vector<std::vector<float>> plain;
  Check({}, &plain);
  if (HasFatalFailure()) return;
  for (InputLayout even : kInputLayouts) {
    for (InputLayout odd : kInputLayouts) {
      for (bool in_place : {false, true}) {
        SCOPED_TRACE(fmt::format("seed {}, even inputs {}, odd inputs {}, in place {}", kSeed,
                                 static_cast<int>(even), static_cast<int>(odd), in_place));
        RunOptions options;
        options.in_place = in_place;
        options.any_layout = in_place;
        options.input_layout = [=, this](const Value& value) {
          return LayoutFor(value, graph_.FindValue(value.name).value() % 2 == 0 ? even : odd);
        };
        std::vector<std::vector<float>> results;
        Check(options, &results);
        if (HasFatalFailure()) return;
        ASSERT_EQ(results.size(), plain.size());
        for (size_t i = 0; i < plain.size(); ++i) {
          ASSERT_EQ(std::memcmp(results[i].data(), plain[i].data(), plain[i].size() * 4), 0)
              << "result " << i << " depends on the layout of the inputs";
        }
      }
    }
  }
}

TEST_P(KernelContract, GivesTheSameOnTwoThreadsWithinTolerance) {
  backend_->SetThreads(2);
  std::vector<std::vector<float>> results;
  RunOptions options;
  options.poison = std::numeric_limits<float>::quiet_NaN();
  Check(options, &results);
}

INSTANTIATE_TEST_SUITE_P(OneDnn, KernelContract, testing::ValuesIn(AllKernelCases()),
                         [](const auto& info) { return info.param.name; });

TEST(KernelContractCoverage, HasACaseForEveryOperator) {
  std::map<std::string, int, std::less<>> seen;
  for (const KernelCase& kernel_case : AllKernelCases()) {
    SCOPED_TRACE(kernel_case.name);
    GraphBuilder builder;
    ASSERT_OK(kernel_case.build(builder));
    for (const Node& node : builder.graph().nodes()) ++seen[node.op];
  }
  for (std::string_view op : onednn::SupportedOps()) {
    if (op.starts_with("Dropout") || op == "UpdateRunningStatistics") continue;  // own tests
    EXPECT_TRUE(seen.contains(op)) << op;
  }
}

}  // namespace
}  // namespace pipedream
