#include "worker/engine/run_steps.h"

#include "common/base/status.h"

namespace pipedream {

absl::Status RunSteps(CompiledProgram& program, Bases bases, std::byte* scratch,
                      const RunContext& context, std::byte* state_share, StepObserver* observer) {
  std::byte*& states = bases.base[static_cast<int>(Region::kStates)];
  std::byte* const shared_states = states;
  for (size_t k = 0; k < program.steps.size(); ++k) {
    CompiledStep& step = program.steps[k];
    if (step.kernel == nullptr) continue;
    states = step.updates_state && state_share != nullptr ? state_share : shared_states;
    for (size_t i = 0; i < step.inputs.size(); ++i)
      step.input_pointers[i] = bases.Resolve(step.inputs[i]);
    for (size_t i = 0; i < step.outputs.size(); ++i)
      step.output_pointers[i] = bases.Resolve(step.outputs[i]);
    if (observer != nullptr) observer->Before(k);
    PD_RETURN_IF_ERROR(
        step.kernel->Run({step.input_pointers, step.output_pointers, scratch, &context}));
    if (observer != nullptr) PD_RETURN_IF_ERROR(observer->After(k));
  }
  return absl::OkStatus();
}

}  // namespace pipedream
