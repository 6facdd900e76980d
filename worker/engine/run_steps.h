// The loop that runs a compiled program.
#pragma once

#include <absl/status/status.h>

#include <cstddef>

#include "worker/engine/compiled_stage.h"

namespace pipedream {

// Told before and after each piece of work, by its index: a step of a program, a parameter's
// update.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void Before(size_t index) = 0;
  // An error ends the loop.
  virtual absl::Status After(size_t index) = 0;
};

// Runs the steps in order. `state_share`, if not null, is the base of kStates for steps that update
// running statistics. `scratch` has program.scratch_bytes. Allocates nothing.
absl::Status RunSteps(CompiledProgram& program, Bases bases, std::byte* scratch,
                      const RunContext& context, std::byte* state_share = nullptr,
                      StepObserver* observer = nullptr);

}  // namespace pipedream
