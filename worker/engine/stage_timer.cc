#include "worker/engine/stage_timer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "worker/engine/parameter_update.h"

namespace pipedream {
namespace {

constexpr int kMaxSteps = 400;
// From here on the clock's own time around each kernel is nothing.
constexpr double kLongStep = 0.05;

double Now() { return ToSeconds(SystemClock()->Now()); }

// Adds what each piece of work took to its list.
class KernelTimer : public StepObserver {
 public:
  KernelTimer(std::vector<std::vector<double>*> lists, const StageTimer::Cancelled& cancelled)
      : lists_(std::move(lists)), cancelled_(cancelled) {}
  void Before(size_t) override {
    if (!lists_.empty()) start_ = Now();
  }
  absl::Status After(size_t index) override {
    if (!lists_.empty()) lists_[index]->push_back(Now() - start_);
    if (cancelled_()) return absl::CancelledError("profiling was cancelled");
    return absl::OkStatus();
  }

 private:
  const std::vector<std::vector<double>*> lists_;  // by index; empty: nothing is timed
  const StageTimer::Cancelled& cancelled_;
  double start_ = 0;
};

}  // namespace

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

void TimeSamples::Add(const TimeSamples& other) {
  for (const auto& [signature, seconds] : other.seconds_) {
    std::vector<double>& own = seconds_[signature];
    own.insert(own.end(), seconds.begin(), seconds.end());
  }
}

double TimeSamples::Median(const std::string& signature) const {
  const auto found = seconds_.find(signature);
  return found == seconds_.end() || found->second.empty() ? 0 : MedianOf(found->second);
}

std::string UpdateSignature(const StoredTensor& parameter) {
  return fmt::format("update {}", parameter.spec.bytes);
}

StageTimer::StageTimer(StageState* stage, const Graph& graph, int64_t samples,
                       const Cancelled& cancelled, TimeSamples* times)
    : stage_(*stage),
      compiled_(stage->training.at(samples)),
      graph_(graph),
      cancelled_(cancelled),
      times_(*times),
      rows_(static_cast<size_t>(samples), 0) {
  auto base = [&](Region region) -> std::byte*& { return bases_.base[static_cast<int>(region)]; };
  base(Region::kArena) = stage_.arena.data();
  base(Region::kSlot) = stage_.slots[0].data();
  base(Region::kParameters) = stage_.weights->latest_data();
  base(Region::kGradients) = stage_.gradients(0);
  base(Region::kStates) = stage_.states.data();
  base(Region::kConstants) = stage_.constants.data();
  context_.sample_ids = rows_;
}

// Floats in [0, 1), which keep clear of slow denormal numbers; zeros elsewhere, which every
// vocabulary and class count allows.
void StageTimer::Fill(ValueId id, const Place& place) {
  const Value& value = graph_.value(id);
  const auto count = static_cast<size_t>(value.shape.elements());
  std::byte* data = bases_.Resolve(place);
  if (value.dtype != DataType::kFloat32) {
    std::memset(data, 0, count * SizeOf(value.dtype));
    return;
  }
  for (size_t i = noise_.size(); i < count; ++i)
    noise_.push_back(UniformFloat(Philox(1, 0, static_cast<int64_t>(i))[0]));
  std::memcpy(data, noise_.data(), count * sizeof(float));
}

absl::StatusOr<double> StageTimer::RunProgram(CompiledProgram& program, TimeSamples* times) {
  for (const CompiledMessage& message : program.received)
    for (const MessageItem& item : message.items) Fill(item.value, item.place);
  std::vector<std::vector<double>*> lists;
  if (times != nullptr)
    for (const CompiledStep& step : program.steps) lists.push_back(times->of(step.signature));
  KernelTimer timer(std::move(lists), cancelled_);
  const double start = Now();
  PD_RETURN_IF_ERROR(RunSteps(program, bases_, stage_.arena.data() + program.arena_bytes, context_,
                              nullptr, &timer));
  return Now() - start;
}

double StageTimer::Optimize(TimeSamples* times) {
  UpdateArguments arguments;
  arguments.state.resize(stage_.optimizer_state.size());
  std::vector<std::vector<double>*> lists;
  if (times != nullptr)
    for (const StoredTensor& p : stage_.layout.parameters)
      lists.push_back(times->of(UpdateSignature(p)));
  KernelTimer timer(std::move(lists), cancelled_);
  std::byte* weights = stage_.weights->latest_data();
  const double start = Now();
  UpdateParameters(stage_, 0, weights, weights, &arguments, &timer);
  return Now() - start;
}

absl::StatusOr<double> StageTimer::OneStep(TimeSamples* times) {
  for (const LoadItem& load : compiled_.loads) Fill(graph_.FindValue(load.column), load.place);
  PD_ASSIGN_OR_RETURN(const double forward, RunProgram(compiled_.forward, times));
  PD_ASSIGN_OR_RETURN(const double backward, RunProgram(compiled_.backward, times));
  return forward + backward + Optimize(times);
}

absl::Status StageTimer::Run(double budget_s) {
  // The first step is slower than others; by little where it is long, and then it counts.
  TimeSamples first;
  PD_ASSIGN_OR_RETURN(double step, OneStep(&first));
  double spent = step;
  const bool is_long = step > kLongStep;
  if (step > budget_s / 4) {
    whole_.push_back(step);
    times_.Add(first);
  }
  while (whole_.size() < 2 || (spent < budget_s && whole_.size() < kMaxSteps)) {
    PD_ASSIGN_OR_RETURN(step, OneStep(is_long ? &times_ : nullptr));
    whole_.push_back(step);
    spent += step;
    if (is_long) continue;
    PD_ASSIGN_OR_RETURN(step, OneStep(&times_));
    spent += step;
  }
  return absl::OkStatus();
}

}  // namespace pipedream
