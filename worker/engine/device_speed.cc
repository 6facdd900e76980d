#include "worker/engine/device_speed.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/graph/op_def.h"
#include "common/graph/training_graph.h"
#include "worker/engine/memory_plan.h"
#include "worker/engine/run_steps.h"
#include "worker/engine/stage_compiler.h"

namespace pipedream {
namespace {

constexpr int64_t kBatch = 8;
constexpr int64_t kPixels = 14;
constexpr int64_t kChannels = 32;
constexpr int64_t kFeatures = kChannels * kPixels * kPixels;
constexpr int64_t kClasses = 64;
constexpr double kUndisturbed = 0.9;
constexpr int kLongWindows = 2;

// A convolution and a matrix product with what stands between them.
absl::StatusOr<TrainingGraph> Network() {
  GraphBuilder b;
  auto parameter = [&](const char* name, const Shape& shape) {
    std::vector<float> values(static_cast<size_t>(shape.elements()));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = 0.01f * static_cast<float>(static_cast<int>(i % 7) - 3);
    return b.AddParameter(name, Tensor::FromVector<float>(shape, values));
  };
  ValueId x = b.AddInput("x", DataType::kFloat32, Shape({kBatch, kChannels, kPixels, kPixels}));
  auto add = [&](const char* name, std::string_view op, std::vector<ValueId> inputs,
                 Attributes attributes) -> absl::Status {
    PD_ASSIGN_OR_RETURN(std::vector<ValueId> out,
                        b.AddNode(name, op, std::move(inputs), std::move(attributes)));
    x = out[0];
    return absl::OkStatus();
  };
  const ValueId filter = parameter("filter", Shape({kChannels, kChannels, 3, 3}));
  const ValueId matrix = parameter("matrix", Shape({kFeatures, kClasses}));
  using Ints = std::vector<int64_t>;
  PD_RETURN_IF_ERROR(add("conv", "Conv", {x, filter},
                         Attributes()
                             .Set("kernel", Ints{3, 3})
                             .Set("strides", Ints{1, 1})
                             .Set("pads", Ints{1, 1, 1, 1})
                             .Set("dilations", Ints{1, 1})
                             .Set("group", int64_t{1})));
  PD_RETURN_IF_ERROR(add("relu", "Relu", {x}, {}));
  PD_RETURN_IF_ERROR(
      add("flat", "Reshape", {x}, Attributes().Set("shape", Ints{kBatch, kFeatures})));
  PD_RETURN_IF_ERROR(add("product", "MatMul", {x, matrix}, {}));
  b.AddOutput(x);
  const std::string output = b.graph().value(x).name;
  PD_ASSIGN_OR_RETURN(const Graph graph, std::move(b).Build());
  return MakeTrainingGraph(graph, {{LossTerm::Kind::kCrossEntropy, output, "label", 1}});
}

double ProcessCpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class SpeedMeter {
 public:
  SpeedMeter(const KernelBackend& backend, Device* device, const SpeedOptions& options)
      : backend_(backend), device_(*device), options_(options) {}

  absl::StatusOr<double> Measure() {
    PD_RETURN_IF_ERROR(Build());
    PD_RETURN_IF_ERROR(Pass());  // first touches
    PD_ASSIGN_OR_RETURN(Window window, Run(options_.window_s));
    if (window.undisturbed) return window.speed;
    double best = 0;
    for (int i = 0; i < kLongWindows; ++i) {
      PD_ASSIGN_OR_RETURN(window, Run(options_.long_window_s));
      best = std::max(best, window.speed);
    }
    return best;
  }

 private:
  struct Window {
    double speed = 0;
    bool undisturbed = false;
  };
  static double Now() { return ToSeconds(SystemClock()->Now()); }

  absl::StatusOr<Window> Run(double seconds) {
    const double start = Now(), start_cpu = ProcessCpuSeconds();
    double slept = 0, elapsed = 0;
    int64_t passes = 0;
    while (elapsed < seconds) {
      if (options_.cancelled()) return absl::CancelledError("measuring speed was cancelled");
      const double begin = Now();
      PD_RETURN_IF_ERROR(Pass());
      ++passes;
      if (options_.slowdown > 1) {
        const double before = Now();
        std::this_thread::sleep_for(FromSeconds((options_.slowdown - 1) * (before - begin)));
        slept += Now() - before;
      }
      elapsed = Now() - start;
    }
    const double wanted = (elapsed - slept) * options_.threads;
    return Window{flops_ * static_cast<double>(passes) / elapsed,
                  ProcessCpuSeconds() - start_cpu > kUndisturbed * wanted};
  }

  absl::Status Build() {
    PD_ASSIGN_OR_RETURN(training_, Network());
    for (const Node& node : training_.graph.nodes()) flops_ += CostOf(training_.graph, node).flops;
    PD_ASSIGN_OR_RETURN(const std::vector<StageGraph> whole,
                        CutStages(training_, std::vector<int>(training_.forward_nodes, 0), 1));
    StageLayout layout;
    PD_ASSIGN_OR_RETURN(compiled_,
                        CompileStage(training_, whole[0], backend_, kBatch, {}, &layout));
    size_t arena = 0;
    for (const CompiledProgram* program : compiled_.programs())
      arena = std::max(arena, program->arena_bytes + program->scratch_bytes);
    const std::pair<Region, size_t> regions[] = {{Region::kArena, arena},
                                                 {Region::kSlot, compiled_.slot_bytes},
                                                 {Region::kParameters, layout.parameter_bytes},
                                                 {Region::kGradients, layout.parameter_bytes},
                                                 {Region::kStates, layout.state_bytes},
                                                 {Region::kConstants, layout.constant_bytes}};
    for (const auto& [region, bytes] : regions) {
      PD_ASSIGN_OR_RETURN(DeviceBuffer buffer, device_.Allocate(bytes, "measuring speed"));
      bases_.base[static_cast<int>(region)] = buffer.data();
      memory_.push_back(std::move(buffer));
    }
    return absl::OkStatus();
  }

  absl::Status Pass() {
    for (const LoadItem& load : compiled_.loads)  // whoever shares its memory writes there
      if (load.dtype == DataType::kInt64)
        std::memset(bases_.Resolve(load.place), 0, kBatch * sizeof(int64_t));
    for (CompiledProgram* program : {&compiled_.forward, &compiled_.backward})
      PD_RETURN_IF_ERROR(
          RunSteps(*program, bases_,
                   bases_.base[static_cast<int>(Region::kArena)] + program->arena_bytes, context_));
    return absl::OkStatus();
  }

  const KernelBackend& backend_;
  Device& device_;
  const SpeedOptions& options_;
  TrainingGraph training_;
  CompiledStage compiled_;
  std::vector<DeviceBuffer> memory_;
  Bases bases_;
  RunContext context_;
  double flops_ = 0;
};

}  // namespace

absl::StatusOr<double> MeasureSpeed(const KernelBackend& backend, Device* device,
                                    const SpeedOptions& options) {
  return SpeedMeter(backend, device, options).Measure();
}

}  // namespace pipedream
