// Times the kernels of one stage while it runs alone, on inputs without meaning.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "worker/engine/run_steps.h"
#include "worker/engine/stage_state.h"

namespace pipedream {

// Seconds that pieces of work took, by what they do (CompiledStep::signature).
class TimeSamples {
 public:
  std::vector<double>* of(const std::string& signature) { return &seconds_[signature]; }
  void Add(const TimeSamples& other);
  // 0 if there is none.
  double Median(const std::string& signature) const;

 private:
  std::map<std::string, std::vector<double>> seconds_;
};

double MedianOf(std::vector<double> values);  // of at least one
std::string UpdateSignature(const StoredTensor& parameter);

class StageTimer {
 public:
  // Asked between kernels; true stops with kCancelled.
  using Cancelled = std::function<bool()>;

  // Borrows all. `stage` has programs for `samples`, cut from `graph`, one slot and one version.
  StageTimer(StageState* stage, const Graph& graph, int64_t samples, const Cancelled& cancelled,
             TimeSamples* times);

  // Whole steps, forward to update, at least two, until they have taken `budget_s` or a few hundred
  // were made. The rate is zero: weights stay as they are. Where a step is so short that reading
  // the clock around every kernel would count, half of them run without.
  absl::Status Run(double budget_s);
  double step_s() const { return MedianOf(whole_); }  // after Run

 private:
  void Fill(ValueId value, const Place& place);
  // Seconds; what single kernels took goes to `times` if that is not null.
  absl::StatusOr<double> RunProgram(CompiledProgram& program, TimeSamples* times);
  double Optimize(TimeSamples* times);
  absl::StatusOr<double> OneStep(TimeSamples* times);

  StageState& stage_;
  CompiledStage& compiled_;
  const Graph& graph_;
  const Cancelled& cancelled_;
  TimeSamples& times_;
  Bases bases_;
  RunContext context_;
  std::vector<int64_t> rows_;
  std::vector<float> noise_;
  std::vector<double> whole_;
};

}  // namespace pipedream
