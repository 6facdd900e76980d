#include "worker/engine/profiler.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/graph/training_graph.h"
#include "common/job/stage_flow.h"
#include "common/schedule/schedules.h"
#include "worker/engine/profile_pieces.h"
#include "worker/engine/profile_sizes.h"
#include "worker/engine/stage_compiler.h"
#include "worker/engine/stage_state.h"
#include "worker/engine/stage_timer.h"

namespace pipedream {
namespace {

// How much of the device's free memory pieces may be expected to take; less with every try, since
// what they take is an estimate.
constexpr double kFirstShare = 0.95;
constexpr double kNextShare = 0.8;
constexpr double kLeastShare = 0.01;

// Something that was timed, of a node of the model.
struct TimedPart {
  std::string signature;
  int node = 0;
  double NodeProfile::*seconds = nullptr;
};

struct Piece {
  std::vector<TimedPart> parts;
  double step_s = 0;
};

double NodeProfile::*SecondsOf(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return &NodeProfile::forward_s;
    case Pass::kInputGradient:
      return &NodeProfile::input_gradient_s;
    case Pass::kWeightGradient:
      break;
  }
  return &NodeProfile::weight_gradient_s;
}

class Profiler {
 public:
  Profiler(const std::shared_ptr<const Model>& model, const JobSpec& spec, const RunShape& run,
           const KernelBackend& backend, Device* device, const ProfilerOptions& options)
      : model_(model),
        spec_(spec),
        backend_(backend),
        device_(*device),
        options_(options),
        samples_(run.microbatch_size()),
        one_(run) {
    one_.train_samples = one_.batch_size = samples_;
    one_.epochs = 1;
    one_.microbatches = 1;
    one_.evaluation_samples = 0;
  }

  absl::StatusOr<Profile> Run() {
    PD_ASSIGN_OR_RETURN(training_, BindTraining(*model_, spec_, samples_));
    PD_RETURN_IF_ERROR(ReadSizes());
    PD_ASSIGN_OR_RETURN(const std::vector<Piece> pieces, MeasureWhatFits());
    profile_.model_hash = model_->content_hash();
    profile_.device_kind = device_.kind();
    profile_.microbatch_size = samples_;
    profile_.optimizer_state_tensors = optimizer_tensors_;
    for (const Piece& piece : pieces) AddTimes(piece);
    return std::move(profile_);
  }

 private:
  absl::Status ReadSizes() {
    PD_ASSIGN_OR_RETURN(const std::vector<StageGraph> whole,
                        CutStages(training_, std::vector<int>(training_.forward_nodes, 0), 1));
    StageLayout layout;
    PD_ASSIGN_OR_RETURN(const CompiledStage compiled,
                        CompileStage(training_, whole[0], backend_, samples_, {}, &layout));
    profile_ = SizesOf(training_, compiled, layout);
    optimizer_tensors_ = static_cast<int>(MakeOptimizer(spec_.optimizer)->state_tensors().size());
    whole_bytes_ = BytesToProfile(compiled, layout, optimizer_tensors_);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Piece>> MeasureWhatFits() {
    const int64_t free = device_.limit_bytes() - device_.allocated_bytes();
    if (whole_bytes_ <= free) {
      absl::StatusOr<std::vector<Piece>> whole =
          Measure(std::vector<int>(training_.forward_nodes, 0));
      if (!absl::IsResourceExhausted(whole.status())) return whole;
    }
    absl::StatusOr<std::vector<Piece>> pieces = Internal("no piece was tried");
    std::vector<int> tried;
    for (double share = kFirstShare; share > kLeastShare; share *= kNextShare) {
      std::vector<int> piece_of =
          ChoosePieces(training_, profile_, optimizer_tensors_,
                       static_cast<int64_t>(share * static_cast<double>(free)));
      if (piece_of == tried) continue;
      LogInfo("the model needs {} to run whole, there are {}: profiles it in {} pieces",
              FormatBytes(whole_bytes_), FormatBytes(free), piece_of.back() + 1);
      pieces = Measure(piece_of);
      if (!absl::IsResourceExhausted(pieces.status())) break;
      tried = std::move(piece_of);
    }
    return pieces;
  }

  absl::StatusOr<std::vector<Piece>> Measure(const std::vector<int>& piece_of) {
    times_ = TimeSamples();
    const int count = piece_of.back() + 1;
    ScheduleShape shape = MakeScheduleShape(one_, std::vector<int>(count, 1), {}, false);
    PD_RETURN_IF_ERROR(SetStageFlow(*model_, spec_, piece_of, &shape));
    PD_ASSIGN_OR_RETURN(const std::vector<StageProgram> programs, MakePrograms("1f1b", shape));
    // Where a parameter's readers are parted its gradient is summed by pieces.
    TrainingGraph parted;
    if (!shape.tied_stages.empty()) {
      PD_ASSIGN_OR_RETURN(parted, BindTraining(*model_, spec_, samples_, piece_of));
    }
    const TrainingGraph& training = shape.tied_stages.empty() ? training_ : parted;
    std::vector<Piece> pieces(count);
    for (int k = 0; k < count; ++k) {
      StageInputs inputs{model_, spec_, one_, piece_of, programs[k], 0, nullptr, nullptr};
      PD_ASSIGN_OR_RETURN(const std::unique_ptr<StageState> stage,
                          BuildStage(inputs, backend_, &device_));
      StageTimer timer(stage.get(), training.graph, samples_, options_.cancelled, &times_);
      PD_RETURN_IF_ERROR(timer.Run(options_.budget_s / count));
      pieces[k] = {PartsOf(training, *stage), options_.slowdown * timer.step_s()};
    }
    return pieces;
  }

  std::vector<TimedPart> PartsOf(const TrainingGraph& training, const StageState& stage) const {
    std::vector<TimedPart> parts;
    const CompiledStage& compiled = stage.training.at(samples_);
    for (const CompiledProgram* program : {&compiled.forward, &compiled.backward})
      for (const CompiledStep& step : program->steps)
        parts.push_back({step.signature, training.origin[step.node.value()].value(),
                         SecondsOf(training.pass[step.node.value()])});
    for (const StoredTensor& p : stage.layout.parameters) {
      const NodeId reader = training_.graph.consumers(training_.graph.FindValue(p.name)).front();
      parts.push_back({UpdateSignature(p), training_.origin[reader.value()].value(),
                       &NodeProfile::optimizer_s});
    }
    return parts;
  }

  void AddTimes(const Piece& piece) {
    double sum = 0;
    for (const TimedPart& part : piece.parts) sum += times_.Median(part.signature);
    if (sum == 0) return;  // nodes that only rename their inputs
    const double scale = piece.step_s / sum;
    for (const TimedPart& part : piece.parts)
      profile_.nodes[part.node].*part.seconds += scale * times_.Median(part.signature);
    profile_.step_s += piece.step_s;
  }

  const std::shared_ptr<const Model>& model_;
  const JobSpec& spec_;
  const KernelBackend& backend_;
  Device& device_;
  const ProfilerOptions& options_;
  const int64_t samples_;
  RunShape one_;  // a single microbatch
  TrainingGraph training_;
  int optimizer_tensors_ = 0;
  int64_t whole_bytes_ = 0;
  Profile profile_;
  TimeSamples times_;
};

}  // namespace

absl::StatusOr<Profile> ProfileModel(const std::shared_ptr<const Model>& model, const JobSpec& spec,
                                     const RunShape& run, const KernelBackend& backend,
                                     Device* device, const ProfilerOptions& options) {
  return Profiler(model, spec, run, backend, device, options).Run();
}

}  // namespace pipedream
