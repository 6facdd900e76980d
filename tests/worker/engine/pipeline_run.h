// Runs one microbatch through compiled stages, one after the other, without schedule or executor.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/graph/training_graph.h"
#include "worker/device/device.h"
#include "worker/engine/memory_plan.h"
#include "worker/engine/message_packing.h"
#include "worker/engine/relayout.h"
#include "worker/engine/run_steps.h"
#include "worker/engine/stage_compiler.h"

namespace pipedream {

struct PipelineResult {
  float loss = 0;
  // Row-major, by name; a shared parameter's gradients by "name@stage".
  std::map<std::string, std::vector<float>> gradients;
  std::map<std::string, std::vector<float>> states;  // after the run
  std::vector<size_t> slot_bytes;                    // per stage
  std::vector<size_t> backward_steps;                // of the fused, or of both parts
};

inline constexpr int kNanByte = 0xff;

struct RunStage {
  StageLayout layout;
  CompiledStage compiled;
  DeviceBuffer memory[kRegionCount];
  Bases bases;
};

class Pipeline {
 public:
  Pipeline(const TrainingGraph& training, const std::vector<StageGraph>& cut,
           const CompileOptions& options, const std::map<std::string, Tensor>& inputs)
      : training_(training),
        cut_(cut),
        options_(options),
        inputs_(inputs),
        backend_(MakeOneDnnBackend()),
        device_(MakeCpuDevice(1, 0)),
        stages_(cut.size()) {
    backend_->SetThreads(1);
    samples_ = training.graph.value(training.graph.inputs()[0]).shape[0];
    for (int64_t k = 0; k < samples_; ++k) rows_.push_back(100 + k);
    context_.seed = 9;
    context_.step = 3;
    context_.sample_ids = rows_;
  }

  absl::StatusOr<PipelineResult> Run() {
    for (size_t s = 0; s < stages_.size(); ++s) PD_RETURN_IF_ERROR(Build(s));
    for (size_t s = 0; s < stages_.size(); ++s) PD_RETURN_IF_ERROR(Forward(s));
    for (size_t s = stages_.size(); s-- > 0;) {
      CompiledStage& compiled = stages_[s].compiled;
      PD_RETURN_IF_ERROR(
          RunProgram(s, options_.fused_backward ? compiled.backward : compiled.backward_input));
    }
    if (!options_.fused_backward) {
      for (size_t s = 0; s < stages_.size(); ++s)
        PD_RETURN_IF_ERROR(RunProgram(s, stages_[s].compiled.backward_weight));
    }
    for (size_t s = 0; s < stages_.size(); ++s) PD_RETURN_IF_ERROR(Collect(s));
    return std::move(result_);
  }

 private:
  absl::Status Build(size_t s) {
    RunStage& stage = stages_[s];
    PD_ASSIGN_OR_RETURN(stage.compiled, CompileStage(training_, cut_[s], *backend_, samples_,
                                                     options_, &stage.layout));
    size_t arena = 0;
    for (const CompiledProgram* program : stage.compiled.programs())
      arena = std::max(arena, program->arena_bytes + AlignUp(program->scratch_bytes));
    const std::pair<Region, size_t> sizes[] = {{Region::kArena, arena},
                                               {Region::kSlot, stage.compiled.slot_bytes},
                                               {Region::kParameters, stage.layout.parameter_bytes},
                                               {Region::kGradients, stage.layout.parameter_bytes},
                                               {Region::kStates, stage.layout.state_bytes},
                                               {Region::kConstants, stage.layout.constant_bytes}};
    for (auto [region, bytes] : sizes) {
      DeviceBuffer& buffer = stage.memory[static_cast<int>(region)];
      PD_ASSIGN_OR_RETURN(buffer, device_->Allocate(bytes, "a test"));
      std::memset(buffer.data(), kNanByte, bytes);
      stage.bases.base[static_cast<int>(region)] = buffer.data();
    }
    const std::pair<Region, const std::vector<StoredTensor>*> lists[] = {
        {Region::kParameters, &stage.layout.parameters},
        {Region::kStates, &stage.layout.states},
        {Region::kConstants, &stage.layout.constants}};
    for (auto [region, list] : lists) {
      for (const StoredTensor& tensor : *list)
        PD_RETURN_IF_ERROR(Relayout(*backend_,
                                    TensorSpec::Plain(tensor.spec.dtype, tensor.spec.shape),
                                    tensor.spec, tensor.initial.bytes().data(),
                                    stage.bases.base[static_cast<int>(region)] + tensor.offset));
    }
    return absl::OkStatus();
  }

  absl::Status Forward(size_t s) {
    RunStage& stage = stages_[s];
    Clear(stage);
    for (const LoadItem& load : stage.compiled.loads) {
      const Tensor& tensor = inputs_.at(load.column);
      std::memcpy(stage.bases.Resolve(load.place), tensor.bytes().data(), tensor.bytes().size());
    }
    PD_RETURN_IF_ERROR(RunHere(s, stage.compiled.forward));
    if (stage.compiled.loss.present)
      std::memcpy(&result_.loss, stage.bases.Resolve(stage.compiled.loss), sizeof(float));
    return absl::OkStatus();
  }

  void Clear(RunStage& stage) {
    DeviceBuffer& arena = stage.memory[static_cast<int>(Region::kArena)];
    std::memset(arena.data(), kNanByte, arena.size());
  }

  absl::Status RunProgram(size_t s, CompiledProgram& program) {
    Clear(stages_[s]);
    return RunHere(s, program);
  }

  absl::Status RunHere(size_t s, CompiledProgram& program) {
    RunStage& stage = stages_[s];
    const int here = static_cast<int>(s);
    for (CompiledMessage& message : program.received)
      PD_RETURN_IF_ERROR(UnpackMessage(message, stage.bases, messages_.at({message.stage, here})));
    PD_RETURN_IF_ERROR(RunSteps(
        program, stage.bases,
        stage.bases.base[static_cast<int>(Region::kArena)] + program.arena_bytes, context_));
    for (CompiledMessage& message : program.sent) {
      std::vector<std::byte>& bytes = messages_[{here, message.stage}];
      bytes.resize(message.bytes);
      PD_RETURN_IF_ERROR(PackMessage(message, stage.bases, bytes.data()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<float>> Read(const RunStage& stage, const StoredTensor& tensor,
                                          Region region) {
    std::vector<float> out(tensor.spec.shape.elements());
    PD_RETURN_IF_ERROR(
        Relayout(*backend_, tensor.spec, TensorSpec::Plain(tensor.spec.dtype, tensor.spec.shape),
                 stage.bases.base[static_cast<int>(region)] + tensor.offset, out.data()));
    return out;
  }

  absl::Status Collect(size_t s) {
    const RunStage& stage = stages_[s];
    for (const StoredTensor& p : stage.layout.parameters) {
      const std::string name = p.holders.empty() ? p.name : fmt::format("{}@{}", p.name, s);
      PD_ASSIGN_OR_RETURN(result_.gradients[name], Read(stage, p, Region::kGradients));
    }
    for (const StoredTensor& state : stage.layout.states) {
      PD_ASSIGN_OR_RETURN(result_.states[state.name], Read(stage, state, Region::kStates));
    }
    const CompiledStage& compiled = stage.compiled;
    result_.slot_bytes.push_back(compiled.slot_bytes);
    result_.backward_steps.push_back(compiled.backward.steps.size() +
                                     compiled.backward_input.steps.size() +
                                     compiled.backward_weight.steps.size());
    return absl::OkStatus();
  }

  const TrainingGraph& training_;
  const std::vector<StageGraph>& cut_;
  const CompileOptions& options_;
  const std::map<std::string, Tensor>& inputs_;
  std::unique_ptr<KernelBackend> backend_;
  std::unique_ptr<Device> device_;
  std::vector<RunStage> stages_;
  int64_t samples_ = 0;
  std::vector<int64_t> rows_;
  RunContext context_;
  std::map<std::pair<int, int>, std::vector<std::byte>> messages_;  // (from, to)
  PipelineResult result_;
};

// Runs the split programs if `options` compiles no fused one: all input parts from the last stage
// to the first, then the weight parts from the first to the last. Temporaries are overwritten
// between programs. `inputs` by name, label included.
inline absl::StatusOr<PipelineResult> RunPipeline(const TrainingGraph& training,
                                                  const std::vector<StageGraph>& cut,
                                                  const CompileOptions& options,
                                                  const std::map<std::string, Tensor>& inputs) {
  return Pipeline(training, cut, options, inputs).Run();
}

}  // namespace pipedream
