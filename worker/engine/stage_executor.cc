#include "worker/engine/stage_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "common/base/status.h"
#include "worker/engine/parameter_update.h"

namespace pipedream {
namespace {

constexpr Duration kWaitSlice = std::chrono::milliseconds(100);
// While sums are on their way, other workers wait for this one to pass them on.
constexpr Duration kWaitSliceWithSums = std::chrono::microseconds(200);

bool Computes(Op op) {
  return op == Op::kForward || op == Op::kBackward || op == Op::kBackwardInput ||
         op == Op::kBackwardWeight || op == Op::kEvaluate || op == Op::kStep;
}

std::span<float> FloatsOf(const StageState& stage, int64_t update, const StoredTensor& parameter) {
  return {reinterpret_cast<float*>(stage.gradients(update) + parameter.offset),
          parameter.spec.bytes / sizeof(float)};
}

}  // namespace

StageExecutor::StageExecutor(const StageProgram* program, const std::vector<StageState*>& stages,
                             WorkerChannels* channels, StageMonitor* monitor, Clock* clock,
                             SpanRecorder* spans, LedgerRecorder* ledger, double slowdown)
    : program_(*program),
      channels_(*channels),
      monitor_(*monitor),
      clock_(clock),
      spans_(spans),
      slowdown_(slowdown),
      cursor_(*program),
      after_update_(*program) {
  for (size_t chunk = 0; chunk < stages.size(); ++chunk)
    runners_.emplace_back(stages[chunk], &channels->stages[chunk], channels->replicas.get(),
                          monitor, clock, ledger == nullptr ? nullptr : ledger->of(chunk));
  const ScheduleShape& shape = program->shape;
  if (shape.global_norm) {
    const int capacity = static_cast<int>(NormLag(shape, program->policy)) + 4;
    norms_ = std::make_unique<QueuedSum<double>>(channels->workers.get(),
                                                 stages[0]->global_parameters, capacity);
  }
  PlaceTiedParts();
}

void StageExecutor::PlaceTiedParts() {
  if (program_.shape.tied_stages.empty()) return;
  for (const StageRunner& runner : runners_)
    speaks_for_tied_ |= runner.state().stage.value() == program_.shape.tied_stages.front();
  // All tied workers place all shared parameters of the model alike.
  std::map<std::string, size_t> offsets;
  size_t floats = 0;
  for (const auto& [name, shared] : runners_[0].state().shared_parameters) {
    offsets[name] = floats;
    floats += shared.floats;
  }
  bool any = false;
  for (size_t chunk = 0; chunk < runners_.size(); ++chunk) {
    const StageState& stage = runners_[chunk].state();
    any |= std::ranges::binary_search(program_.shape.tied_stages, stage.stage.value());
    for (size_t i = 0; i < stage.layout.parameters.size(); ++i) {
      const StoredTensor& p = stage.layout.parameters[i];
      if (!p.holders.empty())
        tied_parts_.push_back({static_cast<int>(chunk), i, offsets.at(p.name)});
    }
  }
  if (any) ties_ = std::make_unique<QueuedSum<float>>(channels_.ties.get(), floats, 3);
}

absl::StatusOr<StageExecutor::Outcome> StageExecutor::Step() {
  PD_RETURN_IF_ERROR(AdvanceSums());
  if (cursor_.done()) {
    if (!sums_pending()) return Outcome::kDone;
    waiting_.collective =
        norms_ != nullptr && norms_->pending() ? norms_->collective() : ties_->collective();
    return Outcome::kBlocked;
  }
  const Instruction instruction = cursor_.Get();
  Duration tried_at{};
  if (!begun_) {
    begun_ = true;
    begun_at_ = tried_at = clock_->Now();
    monitor_.Begin(instruction);
  } else if (spans_ != nullptr || slowdown_ > 1) {
    tried_at = clock_->Now();
  }
  absl::StatusOr<bool> done = Execute(instruction);
  if (!done.ok()) return Describe(done.status(), instruction);
  if (!*done) return Outcome::kBlocked;
  if (slowdown_ > 1 && Computes(instruction.op)) SlowDown(clock_->Now() - tried_at);
  const Duration now = clock_->Now();
  monitor_.AddTime(instruction.op, ToSeconds(now - begun_at_));
  if (spans_ != nullptr) spans_->Record({instruction, begun_at_, tried_at, now});
  begun_ = false;
  cursor_.Next();
  return cursor_.done() && !sums_pending() ? Outcome::kDone : Outcome::kProgress;
}

absl::Status StageExecutor::Run() {
  while (true) {
    {
      MutexLock lock(mutex_);
      if (!abort_cause_.ok()) return abort_cause_;
    }
    absl::StatusOr<Outcome> outcome = Step();
    if (!outcome.ok()) {
      MutexLock lock(mutex_);
      return abort_cause_.ok() ? outcome.status() : abort_cause_;
    }
    if (*outcome == Outcome::kDone) return absl::OkStatus();
    if (*outcome == Outcome::kProgress) continue;
    const Duration slice = sums_pending() ? kWaitSliceWithSums : kWaitSlice;
    if (waiting_.send != nullptr) waiting_.send->Wait(slice);
    if (waiting_.receive != nullptr) waiting_.receive->Wait(slice);
    if (waiting_.collective != nullptr) waiting_.collective->Wait(slice);
    waiting_ = {};
  }
}

void StageExecutor::SlowDown(Duration busy) {
  owed_ += std::chrono::duration_cast<Duration>(busy * (slowdown_ - 1));
  while (owed_ > Duration::zero()) {
    {
      MutexLock lock(mutex_);
      if (!abort_cause_.ok()) return;
    }
    const Duration start = clock_->Now();
    std::this_thread::sleep_for(std::min(owed_, kWaitSlice));
    owed_ -= clock_->Now() - start;
  }
}

void StageExecutor::Abort(const absl::Status& cause) {
  {
    MutexLock lock(mutex_);
    if (!abort_cause_.ok()) return;
    abort_cause_ = cause;
  }
  channels_.Abort(cause);
}

absl::Status StageExecutor::Describe(const absl::Status& status,
                                     const Instruction& instruction) const {
  return Annotate(status,
                  fmt::format("stage {} replica {}, {}", runners_[instruction.chunk].state().stage,
                              program_.replica, Format(instruction)));
}

bool StageExecutor::sums_pending() const {
  return (norms_ != nullptr && norms_->pending()) || (ties_ != nullptr && ties_->pending());
}

absl::Status StageExecutor::AdvanceSums() {
  if (norms_ != nullptr) PD_RETURN_IF_ERROR(norms_->Advance());
  if (ties_ != nullptr) PD_RETURN_IF_ERROR(ties_->Advance());
  return absl::OkStatus();
}

absl::StatusOr<bool> StageExecutor::Execute(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::kTie:
      return Tie(instruction.microbatch.value());
    case Op::kNorm:
      return Norm(instruction.microbatch.value());
    case Op::kStep:
      return Update(instruction);
    case Op::kValidate:
      return Validate(instruction.microbatch.value());
    default:
      return runners_[instruction.chunk].Run(instruction, &waiting_);
  }
}

absl::StatusOr<bool> StageExecutor::Tie(int64_t update) {
  if (ties_ == nullptr) return Internal("the worker holds no shared parameter");
  ties_->Release(update - 2);
  PD_ASSIGN_OR_RETURN(std::span<float> sum, ties_->Begin(update));
  // Replicas hold equal gradients after the reduction; one of them speaks for the stage.
  if (program_.replica.value() == 0) {
    for (const TiedPart& part : tied_parts_) {
      const StageState& stage = runners_[part.chunk].state();
      const std::span<float> own = FloatsOf(stage, update, stage.layout.parameters[part.parameter]);
      for (size_t k = 0; k < own.size(); ++k) sum[part.offset + k] += own[k];
    }
  }
  PD_RETURN_IF_ERROR(ties_->Start(update));
  return true;
}

void StageExecutor::TakeTiedGradients(int chunk, int64_t update) {
  const std::span<float> sum = ties_->Result(update);
  for (const TiedPart& part : tied_parts_) {
    if (part.chunk != chunk) continue;
    const StageState& stage = runners_[chunk].state();
    const std::span<float> own = FloatsOf(stage, update, stage.layout.parameters[part.parameter]);
    std::copy_n(sum.begin() + static_cast<std::ptrdiff_t>(part.offset), own.size(), own.begin());
  }
}

absl::StatusOr<bool> StageExecutor::Norm(int64_t norm) {
  if (norms_ == nullptr) return Internal("the run has no global norm");
  // Updates of tied stages are of minibatches, and so are norms: their numbers agree.
  if (speaks_for_tied_ && ties_->Result(norm).empty()) {
    waiting_.collective = ties_->collective();
    return false;
  }
  PD_ASSIGN_OR_RETURN(std::span<double> sum, norms_->Begin(norm));
  if (program_.replica.value() == 0) {
    for (const StageRunner& runner : runners_) {
      const StageState& stage = runner.state();
      SquaredNorms(stage, UpdateOfNorm(stage.shape, stage.policy, stage.stage, norm), sum);
    }
    if (speaks_for_tied_) AddTiedNorms(norm, sum);
  }
  PD_RETURN_IF_ERROR(norms_->Start(norm));
  return true;
}

void StageExecutor::AddTiedNorms(int64_t update, std::span<double> norms) {
  std::span<const float> rest = ties_->Result(update);
  for (const auto& [name, shared] : runners_[0].state().shared_parameters) {
    norms[shared.global_index] = SquaredNorm(rest.first(shared.floats));
    rest = rest.subspan(shared.floats);
  }
}

absl::StatusOr<std::optional<StageExecutor::Verdict>> StageExecutor::Judge(const StageState& stage,
                                                                           int64_t update) {
  Verdict verdict;
  const bool may_skip = stage.spec.on_nonfinite == OnNonFinite::kSkip;
  const bool exact = NormLag(stage.shape, stage.policy) == 0;
  // Where a stage steps before the whole gradient exists, it can but look at its own.
  if (may_skip && !exact) verdict.skip = !GradientsAreFinite(stage, update);
  const int64_t norm = NormOf(stage.shape, stage.policy, stage.stage, update);
  if (norm == kNoNorm) return verdict;
  const std::span<double> squares = norms_->Result(norm);
  if (squares.empty()) {
    waiting_.collective = norms_->collective();
    return std::nullopt;
  }
  norms_->Release(norm - 1);
  double total = 0;
  for (double squared : squares) total += squared;
  const double length = std::sqrt(total);
  if (std::isfinite(length)) {
    const double limit = stage.spec.optimizer.clip_norm;
    if (limit > 0) verdict.scale = std::min(1.0, limit / (length + 1e-6));
  } else if (!may_skip) {
    return WithReason(
        absl::OutOfRangeError("the gradient's norm over the whole model is not finite; lower the "
                              "learning rate, or skip such updates (on_nonfinite: skip)"),
        "NON_FINITE_GRADIENT");
  } else if (exact) {
    verdict.skip = true;
  }
  return verdict;
}

absl::StatusOr<bool> StageExecutor::Update(const Instruction& instruction) {
  StageRunner& runner = runners_[instruction.chunk];
  const StageState& stage = runner.state();
  const int64_t update = instruction.microbatch.value();
  if (std::ranges::binary_search(stage.shape.tied_stages, stage.stage.value())) {
    if (ties_->Result(update).empty()) {
      waiting_.collective = ties_->collective();
      return false;
    }
    TakeTiedGradients(instruction.chunk, update);
  }
  Verdict verdict;
  const bool validates = norms_ != nullptr && program_.policy == WeightPolicy::kSpeculative;
  if (validates && speculates_) {
    after_update_ = cursor_;
    PD_RETURN_IF_ERROR(runner.Speculate(instruction));
    return true;
  }
  if (norms_ != nullptr) {
    PD_ASSIGN_OR_RETURN(std::optional<Verdict> judged, Judge(stage, update));
    if (!judged) return false;
    verdict = *judged;
  }
  if (validates) settled_ = update;
  PD_RETURN_IF_ERROR(runner.Update(instruction, verdict.scale, verdict.skip));
  return true;
}

absl::StatusOr<bool> StageExecutor::Validate(int64_t update) {
  PD_ASSIGN_OR_RETURN(std::optional<Verdict> verdict, Judge(runners_[0].state(), update));
  if (!verdict) return false;
  const bool holds = verdict->scale == 1 && !verdict->skip;
  if (settled_ == update) {
    speculates_ = holds;
    return true;
  }
  settled_ = update;
  if (holds) {
    for (StageRunner& runner : runners_) PD_RETURN_IF_ERROR(runner.Confirm());
    return true;
  }
  for (StageRunner& runner : runners_)
    PD_RETURN_IF_ERROR(runner.TakeBack(update, verdict->scale, verdict->skip));
  cursor_ = after_update_;
  return true;
}

}  // namespace pipedream
