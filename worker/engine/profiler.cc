#include "worker/engine/profiler.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/graph/cuts.h"
#include "common/graph/training_graph.h"
#include "common/schedule/schedules.h"
#include "worker/engine/parameter_update.h"
#include "worker/engine/run_steps.h"
#include "worker/engine/stage_state.h"

namespace pipedream {
namespace {

double Now() { return ToSeconds(SystemClock()->Now()); }

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Adds what each piece of work took to its list, if there are lists.
class StepTimer : public StepObserver {
 public:
  StepTimer(const ProfilerOptions& options, std::vector<std::vector<double>>* times)
      : options_(options), times_(times) {}
  void Before(size_t) override {
    if (times_ != nullptr) start_ = Now();
  }
  absl::Status After(size_t index) override {
    if (times_ != nullptr) (*times_)[index].push_back(Now() - start_);
    if (options_.cancelled()) return absl::CancelledError("profiling was cancelled");
    return absl::OkStatus();
  }

 private:
  const ProfilerOptions& options_;
  std::vector<std::vector<double>>* times_;
  double start_ = 0;
};

class Profiler {
 public:
  Profiler(const std::shared_ptr<const Model>& model, const JobSpec& spec, const RunShape& run,
           const KernelBackend& backend, Device* device, const ProfilerOptions& options)
      : model_(model),
        spec_(spec),
        run_(run),
        backend_(backend),
        device_(device),
        options_(options) {}

  absl::StatusOr<Profile> Run() {
    PD_RETURN_IF_ERROR(Build());
    FillInputs();
    PD_RETURN_IF_ERROR(Measure());
    Profile profile;
    profile.model_hash = model_->content_hash();
    profile.device_kind = device_->kind();
    profile.microbatch_size = run_.microbatch_size();
    profile.optimizer_state_tensors = static_cast<int>(stage_->optimizer_state.size());
    profile.step_s = Median(whole_);
    DescribeNodes(&profile);
    return profile;
  }

 private:
  absl::Status Build() {
    const int64_t samples = run_.microbatch_size();
    BindOptions bind{samples, GraphForm::kTraining, spec_.train_patterns, spec_.freeze_patterns};
    PD_ASSIGN_OR_RETURN(Graph forward, model_->Bind(bind));
    PD_ASSIGN_OR_RETURN(training_, MakeTrainingGraph(forward, spec_.loss));
    RunShape one = run_;
    one.train_samples = one.batch_size = samples;
    one.epochs = 1;
    one.microbatches = 1;
    one.evaluation_samples = 0;
    PD_ASSIGN_OR_RETURN(std::vector<StageProgram> programs,
                        MakePrograms("1f1b", MakeScheduleShape(one, {1}, {}, false)));
    StageInputs inputs{model_,      spec_, one,     std::vector<int>(training_.forward_nodes, 0),
                       programs[0], 0,     nullptr, nullptr};
    PD_ASSIGN_OR_RETURN(stage_, BuildStage(inputs, backend_, device_));
    compiled_ = &stage_->training.at(samples);
    auto base = [&](Region region) -> std::byte*& { return bases_.base[static_cast<int>(region)]; };
    base(Region::kArena) = stage_->arena.data();
    base(Region::kSlot) = stage_->slots[0].data();
    base(Region::kParameters) = stage_->weights->latest_data();
    base(Region::kGradients) = stage_->gradients(0);
    base(Region::kStates) = stage_->states.data();
    base(Region::kConstants) = stage_->constants.data();
    rows_.assign(samples, 0);
    context_.sample_ids = rows_;
    forward_.resize(compiled_->forward.steps.size());
    backward_.resize(compiled_->backward.steps.size());
    optimizer_.resize(stage_->layout.parameters.size());
    return absl::OkStatus();
  }

  // Floats in [0, 1); zeros elsewhere, which every vocabulary and class count allows.
  void FillInputs() {
    for (const LoadItem& load : compiled_->loads) {
      ValueId id = training_.graph.FindValue(load.column);
      const int64_t count = training_.graph.value(id).shape.elements();
      if (load.dtype != DataType::kFloat32) {
        std::memset(bases_.Resolve(load.place), 0, count * SizeOf(load.dtype));
        continue;
      }
      float* values = reinterpret_cast<float*>(bases_.Resolve(load.place));
      for (int64_t i = 0; i < count; ++i) values[i] = UniformFloat(Philox(1, 0, i)[0]);
    }
  }

  absl::Status RunProgram(CompiledProgram& program, std::vector<std::vector<double>>* times) {
    StepTimer timer(options_, times);
    return RunSteps(program, bases_, stage_->arena.data() + program.arena_bytes, context_, nullptr,
                    &timer);
  }

  // The rate is zero: weights stay as they are, whatever the gradients.
  void Optimize(std::vector<std::vector<double>>* times) {
    UpdateArguments arguments;
    arguments.state.resize(stage_->optimizer_state.size());
    StepTimer timer(options_, times);
    std::byte* weights = stage_->weights->latest_data();
    UpdateParameters(*stage_, 0, weights, weights, &arguments, &timer);
  }

  absl::Status OneStep(bool timed) {
    PD_RETURN_IF_ERROR(RunProgram(compiled_->forward, timed ? &forward_ : nullptr));
    PD_RETURN_IF_ERROR(RunProgram(compiled_->backward, timed ? &backward_ : nullptr));
    Optimize(timed ? &optimizer_ : nullptr);
    return absl::OkStatus();
  }

  absl::Status Measure() {
    const double begin = Now();
    PD_RETURN_IF_ERROR(OneStep(false));  // warm-up: first touches of memory
    int rounds = 0;
    while (rounds < 2 || (Now() - begin < options_.budget_s && rounds < 200)) {
      const double start = Now();
      PD_RETURN_IF_ERROR(OneStep(false));
      whole_.push_back(Now() - start);
      PD_RETURN_IF_ERROR(OneStep(true));
      ++rounds;
    }
    return absl::OkStatus();
  }

  void DescribeNodes(Profile* profile) {
    const Graph& graph = training_.graph;
    std::vector<NodeProfile>& nodes = profile->nodes;
    nodes.resize(training_.forward_nodes);
    for (int n = 0; n < training_.forward_nodes; ++n) {
      nodes[n].name = graph.node(NodeId(n)).name;
      nodes[n].op = graph.node(NodeId(n)).op;
      for (ValueId output : graph.node(NodeId(n)).outputs)
        if (output != kNoValue) nodes[n].output_bytes += graph.value(output).bytes();
    }
    auto origin = [&](NodeId id) -> NodeProfile& {
      return nodes[training_.origin[id.value()].value()];
    };
    double sum = 0;
    auto add = [&](const CompiledProgram& program, const std::vector<std::vector<double>>& times) {
      for (size_t k = 0; k < program.steps.size(); ++k) {
        const CompiledStep& step = program.steps[k];
        NodeProfile& node = origin(step.node);
        node.workspace_bytes =
            std::max(node.workspace_bytes, static_cast<int64_t>(step.live_bytes));
        if (times[k].empty()) continue;
        const double seconds = Median(times[k]);
        sum += seconds;
        switch (training_.pass[step.node.value()]) {
          case Pass::kForward:
            node.forward_s += seconds;
            break;
          case Pass::kInputGradient:
            node.input_gradient_s += seconds;
            break;
          case Pass::kWeightGradient:
            node.weight_gradient_s += seconds;
            break;
        }
      }
    };
    add(compiled_->forward, forward_);
    add(compiled_->backward, backward_);
    auto first_reader = [&](ValueId id) -> NodeProfile& {
      return origin(graph.consumers(id).front());
    };
    for (size_t i = 0; i < stage_->layout.parameters.size(); ++i) {
      const StoredTensor& p = stage_->layout.parameters[i];
      NodeProfile& node = first_reader(graph.FindValue(p.name));
      node.parameter_bytes += static_cast<int64_t>(p.spec.bytes);
      const double seconds = Median(optimizer_[i]);
      node.optimizer_s += seconds;
      sum += seconds;
    }
    for (const StoredTensor& state : stage_->layout.states)
      first_reader(graph.FindValue(state.name)).state_bytes +=
          static_cast<int64_t>(state.spec.bytes);
    for (const SavedTensor& saved : compiled_->saved) {
      const Value& value = graph.value(saved.value);
      NodeProfile& node =
          value.producer == kNoNode ? first_reader(saved.value) : origin(value.producer);
      node.saved_bytes += static_cast<int64_t>(saved.bytes);
    }
    for (const CrossingTensor& tensor : CrossingTensors(training_)) {
      ProfileTensor crossing{{tensor.made},
                             tensor.readers,
                             graph.value(tensor.value).bytes(),
                             tensor.gradient};
      if (tensor.gradient) std::swap(crossing.early, crossing.late);
      profile->tensors.push_back(std::move(crossing));
    }
    profile->ties = TiedNodes(training_);
    const double scale = sum > 0 ? profile->step_s / sum : 1;
    for (NodeProfile& node : nodes)
      for (double* t :
           {&node.forward_s, &node.input_gradient_s, &node.weight_gradient_s, &node.optimizer_s})
        *t *= scale;
  }

  const std::shared_ptr<const Model>& model_;
  const JobSpec& spec_;
  const RunShape& run_;
  const KernelBackend& backend_;
  Device* device_;
  const ProfilerOptions& options_;
  TrainingGraph training_;
  std::unique_ptr<StageState> stage_;
  CompiledStage* compiled_ = nullptr;
  Bases bases_;
  RunContext context_;
  std::vector<int64_t> rows_;
  std::vector<std::vector<double>> forward_, backward_;  // seconds per step
  std::vector<std::vector<double>> optimizer_;           // by parameter
  std::vector<double> whole_;
};

}  // namespace

absl::StatusOr<Profile> ProfileModel(const std::shared_ptr<const Model>& model, const JobSpec& spec,
                                     const RunShape& run, const KernelBackend& backend,
                                     Device* device, const ProfilerOptions& options) {
  return Profiler(model, spec, run, backend, device, options).Run();
}

}  // namespace pipedream
