#include "worker/engine/stage_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "worker/engine/message_packing.h"
#include "worker/engine/parameter_update.h"
#include "worker/engine/run_steps.h"
#include "worker/engine/running_statistics.h"

namespace pipedream {
namespace {

constexpr Duration kWaitSlice = std::chrono::milliseconds(100);

// Of the messages that an instruction moves or computes on.
MessageKey KeyOf(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::kBackward:
    case Op::kBackwardInput:
    case Op::kBackwardWeight:
    case Op::kSendGradient:
    case Op::kReceiveGradient:
      return {MessageKind::kGradient, instruction.microbatch.value()};
    case Op::kEvaluate:
    case Op::kSendEvaluation:
    case Op::kReceiveEvaluation:
      return {MessageKind::kEvaluation, instruction.microbatch.value()};
    default:
      return {MessageKind::kActivation, instruction.microbatch.value()};
  }
}

bool IsEvaluation(Op op) {
  return op == Op::kEvaluate || op == Op::kSendEvaluation || op == Op::kReceiveEvaluation;
}

bool IsPerMicrobatch(Op op) {
  return op != Op::kStep && op != Op::kReduce && op != Op::kNorm && op != Op::kPin &&
         op != Op::kUnpin;
}

}  // namespace

StageExecutor::StageExecutor(StageState* stage, StageChannels* channels, StageMonitor* monitor,
                             Clock* clock)
    : stage_(*stage),
      channels_(*channels),
      monitor_(*monitor),
      clock_(clock),
      replicas_(stage->program.shape.replicas[stage->program.stage.value()]),
      cursor_(stage->program) {
  auto base = [&](Region region) -> std::byte*& { return bases_.base[static_cast<int>(region)]; };
  base(Region::kArena) = stage_.arena.data();
  base(Region::kStates) = stage_.states.data();
  base(Region::kConstants) = stage_.constants.data();
  context_.seed = stage_.run.seed;
  rows_.reserve(static_cast<size_t>(stage_.run.microbatch_size()));
  held_.reserve(channels_.activation_in.size() + channels_.gradient_in.size());
  update_.state.resize(stage_.optimizer_state.size());
}

absl::StatusOr<StageExecutor::Outcome> StageExecutor::Step() {
  if (cursor_.done()) return Outcome::kDone;
  const Instruction instruction = cursor_.Get();
  if (!begun_) {
    begun_ = true;
    begun_at_ = clock_->Now();
    monitor_.Begin(instruction);
  }
  absl::StatusOr<bool> done = Execute(instruction);
  if (!done.ok()) return Describe(done.status(), instruction);
  if (!*done) return Outcome::kBlocked;
  monitor_.AddTime(instruction.op, ToSeconds(clock_->Now() - begun_at_));
  begun_ = false;
  cursor_.Next();
  return cursor_.done() ? Outcome::kDone : Outcome::kProgress;
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
    if (wait_send_ != nullptr) wait_send_->Wait(kWaitSlice);
    if (wait_receive_ != nullptr) wait_receive_->Wait(kWaitSlice);
    if (wait_collective_ != nullptr) wait_collective_->Wait(kWaitSlice);
    wait_send_ = nullptr;
    wait_receive_ = nullptr;
    wait_collective_ = nullptr;
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
  return Annotate(status, fmt::format("stage {} replica {}, {}", stage_.program.stage,
                                      stage_.program.replica, Format(instruction)));
}

absl::StatusOr<bool> StageExecutor::Execute(const Instruction& instruction) {
  if (IsPerMicrobatch(instruction.op)) {
    const MicrobatchSamples samples = IsEvaluation(instruction.op)
                                          ? EvaluationSamples(stage_.run, instruction.microbatch)
                                          : TrainingSamples(stage_.run, instruction.microbatch);
    if (samples.count == 0) return true;
  }
  absl::Status status;
  switch (instruction.op) {
    case Op::kReceiveActivation:
    case Op::kReceiveGradient:
    case Op::kReceiveEvaluation:
      return Receive(instruction);
    case Op::kSendActivation:
    case Op::kSendGradient:
    case Op::kSendEvaluation:
      return Send(instruction);
    case Op::kReduce:
      return Reduce(instruction);
    case Op::kNorm:
      return Norm();
    case Op::kForward:
      status = Forward(instruction);
      break;
    case Op::kBackward:
    case Op::kBackwardInput:
    case Op::kBackwardWeight:
      status = Backward(instruction);
      break;
    case Op::kEvaluate:
      status = Evaluate(instruction);
      break;
    case Op::kStep:
      status = Update(instruction);
      break;
    case Op::kPin:
      status = stage_.weights->Pin(instruction.version);
      break;
    case Op::kUnpin:
      stage_.weights->Unpin(instruction.version);
      break;
  }
  if (!status.ok()) return status;
  return true;
}

absl::StatusOr<bool> StageExecutor::Receive(const Instruction& instruction) {
  auto& channels =
      instruction.op == Op::kReceiveGradient ? channels_.gradient_in : channels_.activation_in;
  auto it = channels.find(instruction.peer);
  if (it == channels.end()) return Internal("there is no channel from that peer");
  PD_ASSIGN_OR_RETURN(auto message, it->second->TryReceive(KeyOf(instruction)));
  if (!message.has_value()) {
    wait_receive_ = it->second.get();
    return false;
  }
  held_.push_back({it->second.get(), instruction.peer.stage.value(), KeyOf(instruction), *message});
  return true;
}

absl::StatusOr<bool> StageExecutor::Send(const Instruction& instruction) {
  const bool gradient = instruction.op == Op::kSendGradient;
  auto& channels = gradient ? channels_.gradient_out : channels_.activation_out;
  auto it = channels.find(instruction.peer);
  if (it == channels.end()) return Internal("there is no channel to that peer");
  PIPEDREAM_CHECK(computed_ != nullptr);
  PD_ASSIGN_OR_RETURN(auto slot, it->second->TryAcquire());
  if (!slot.has_value()) {
    wait_send_ = it->second.get();
    return false;
  }
  CompiledMessage* message = FindMessage(computed_->sent, instruction.peer.stage.value());
  const size_t bytes = message == nullptr ? 0 : message->bytes;
  if (bytes > slot->size())
    return Internal("a message of {} bytes does not fit the channel's {}", bytes, slot->size());
  if (message != nullptr) PD_RETURN_IF_ERROR(PackMessage(*message, bases_, slot->data()));
  PD_RETURN_IF_ERROR(it->second->Commit(KeyOf(instruction), bytes));
  monitor_.Count([&](StageCounters& c) { c.sent_bytes += static_cast<int64_t>(bytes); });
  return true;
}

absl::Status StageExecutor::Unpack(CompiledProgram& program, const MessageKey& key) {
  size_t found = 0;
  absl::Status status;
  std::erase_if(held_, [&](const HeldMessage& held) {
    if (held.key != key) return false;
    if (CompiledMessage* message = FindMessage(program.received, held.stage)) {
      ++found;
      status.Update(UnpackMessage(*message, bases_, held.bytes));
    }
    held.channel->Release();
    return true;
  });
  if (status.ok() && found != program.received.size())
    return Internal("{} of {} messages to compute on were received", found,
                    program.received.size());
  return status;
}

absl::Status StageExecutor::LoadSamples(CompiledStage& compiled, const Dataset* data) {
  if (compiled.loads.empty()) return absl::OkStatus();
  const Duration start = clock_->Now();
  for (LoadItem& load : compiled.loads) {
    const Column* column = data == nullptr ? nullptr : data->Find(load.column);
    if (column == nullptr) return Internal("the dataset has no column '{}'", load.column);
    column->Gather(rows_, load.dtype, bases_.Resolve(load.place));
  }
  const double seconds = ToSeconds(clock_->Now() - start);
  monitor_.Count([&](StageCounters& c) { c.load_s += seconds; });
  return absl::OkStatus();
}

absl::Status StageExecutor::RunProgram(CompiledProgram& program, const MessageKey& key,
                                       std::byte* state_share) {
  PD_RETURN_IF_ERROR(Unpack(program, key));
  PD_RETURN_IF_ERROR(
      RunSteps(program, bases_, stage_.arena.data() + program.arena_bytes, context_, state_share));
  computed_ = &program;
  return absl::OkStatus();
}

void StageExecutor::SelectTrainingRows(const MicrobatchSamples& samples) {
  rows_.clear();
  for (int64_t k = 0; k < samples.count; ++k)
    rows_.push_back(TrainingRow(stage_.run, samples.epoch, samples.begin + k));
  context_.step = samples.minibatch;
  context_.sample_ids = rows_;
}

absl::Status StageExecutor::Forward(const Instruction& instruction) {
  const MicrobatchSamples samples = TrainingSamples(stage_.run, instruction.microbatch);
  CompiledStage& compiled = stage_.training.at(samples.count);
  SelectTrainingRows(samples);

  PD_RETURN_IF_ERROR(stage_.weights->Pin(instruction.version));
  PD_ASSIGN_OR_RETURN(bases_.base[static_cast<int>(Region::kParameters)],
                      stage_.weights->Data(instruction.version));
  bases_.base[static_cast<int>(Region::kSlot)] = stage_.slots[instruction.slot].data();
  PD_RETURN_IF_ERROR(LoadSamples(compiled, stage_.train.get()));
  std::byte* share = nullptr;
  if (!stage_.state_shares.empty()) {
    share = stage_.state_shares[instruction.slot].data();
    std::memset(share, 0, stage_.layout.state_bytes);
  }
  PD_RETURN_IF_ERROR(RunProgram(compiled.forward, KeyOf(instruction), share));

  if (compiled.loss.present) {
    float loss;
    std::memcpy(&loss, bases_.Resolve(compiled.loss), sizeof loss);
    if (!std::isfinite(loss))
      return WithReason(
          absl::OutOfRangeError(fmt::format(
              "the loss of minibatch {} is {}; lower the learning rate, or check the data for "
              "non-finite values",
              samples.minibatch, loss)),
          "NON_FINITE_LOSS");
    monitor_.AddLoss(samples.minibatch, static_cast<double>(loss) * samples.count, samples.count);
  }
  monitor_.Count([](StageCounters& c) { ++c.forwards; });
  return absl::OkStatus();
}

absl::Status StageExecutor::Evaluate(const Instruction& instruction) {
  const MicrobatchSamples samples = EvaluationSamples(stage_.run, instruction.microbatch);
  CompiledStage& compiled = stage_.evaluating.at(samples.count);
  rows_.clear();
  for (int64_t k = 0; k < samples.count; ++k) rows_.push_back(samples.begin + k);
  context_.step = 0;
  context_.sample_ids = rows_;
  PD_ASSIGN_OR_RETURN(bases_.base[static_cast<int>(Region::kParameters)],
                      stage_.weights->Data(instruction.version));
  PD_RETURN_IF_ERROR(LoadSamples(compiled, stage_.evaluation.get()));
  PD_RETURN_IF_ERROR(RunProgram(compiled.forward, KeyOf(instruction)));

  if (compiled.loss.present) {
    EvaluationSum share;
    share.epoch = samples.epoch;
    float loss;
    std::memcpy(&loss, bases_.Resolve(compiled.loss), sizeof loss);
    share.loss_sum = static_cast<double>(loss) * samples.count;
    share.samples = samples.count;
    if (compiled.correct.present) {
      std::memcpy(&share.correct, bases_.Resolve(compiled.correct), sizeof share.correct);
      share.positions = compiled.loss_positions;
    }
    monitor_.AddEvaluation(share);
  }
  return absl::OkStatus();
}

absl::Status StageExecutor::Backward(const Instruction& instruction) {
  const MicrobatchSamples samples = TrainingSamples(stage_.run, instruction.microbatch);
  CompiledStage& compiled = stage_.training.at(samples.count);
  SelectTrainingRows(samples);
  PD_ASSIGN_OR_RETURN(bases_.base[static_cast<int>(Region::kParameters)],
                      stage_.weights->Data(instruction.version));
  bases_.base[static_cast<int>(Region::kSlot)] = stage_.slots[instruction.slot].data();
  const MessageKey key = KeyOf(instruction);
  if (instruction.op == Op::kBackwardInput) return RunProgram(compiled.backward_input, key);

  DeviceBuffer& target = contributions_ == 0 ? stage_.gradients : stage_.microbatch_gradients;
  if (target.data() == nullptr)
    return Internal("a second microbatch before the update, which the schedule did not announce");
  bases_.base[static_cast<int>(Region::kGradients)] = target.data();
  const bool fused = instruction.op == Op::kBackward;
  PD_RETURN_IF_ERROR(RunProgram(fused ? compiled.backward : compiled.backward_weight, key));
  stage_.weights->Unpin(instruction.version);
  AddGradients(instruction, samples.count);
  return absl::OkStatus();
}

void StageExecutor::AddGradients(const Instruction& instruction, int64_t samples) {
  const int64_t update = UpdateOfMicrobatch(instruction.microbatch);
  const int64_t total = UpdateSamples(stage_.run, stage_.program.policy, replicas_, update);
  const bool first = contributions_ == 0;
  AddMicrobatchGradients(stage_, first, static_cast<float>(static_cast<double>(samples) / total));
  if (!stage_.state_shares.empty()) {
    const auto [begin, filled] = Round(update);
    AddStateShare(stage_, instruction.slot, filled - 1 - (instruction.microbatch.value() - begin),
                  first);
  }
  ++contributions_;
  monitor_.Count([](StageCounters& c) { ++c.backwards; });
}

int64_t StageExecutor::UpdateOfMicrobatch(MicrobatchId microbatch) const {
  const StageProgram& program = stage_.program;
  return UpdateOf(program.shape, program.policy, program.stage, microbatch);
}

std::pair<int64_t, int64_t> StageExecutor::Round(int64_t update) const {
  const int64_t size = stage_.program.policy == WeightPolicy::kFlush
                           ? stage_.program.shape.microbatches_per_minibatch
                           : replicas_;
  int64_t filled = 0;
  for (int64_t k = 0; k < size; ++k)
    if (TrainingSamples(stage_.run, MicrobatchId(update * size + k)).count > 0) ++filled;
  return {update * size, filled};
}

absl::StatusOr<bool> StageExecutor::Reduce(const Instruction&) {
  if (channels_.replicas == nullptr) return Internal("there is no collective among the replicas");
  if (!collective_started_) {
    float* sum = reinterpret_cast<float*>(stage_.gradients.data());
    // A replica without a microbatch in the round adds nothing.
    if (contributions_ == 0) std::memset(sum, 0, stage_.gradient_floats * sizeof(float));
    PD_RETURN_IF_ERROR(channels_.replicas->StartSum(std::span<float>(sum, stage_.gradient_floats)));
    collective_started_ = true;
  }
  PD_ASSIGN_OR_RETURN(bool done, channels_.replicas->Advance());
  if (done)
    collective_started_ = false;
  else
    wait_collective_ = channels_.replicas.get();
  return done;
}

absl::StatusOr<bool> StageExecutor::Norm() {
  if (!collective_started_) {
    // Replicas hold equal gradients after the reduction; one of them speaks for the stage.
    if (stage_.program.replica.value() == 0)
      SquaredNorms(stage_);
    else
      std::ranges::fill(stage_.norms, 0.0);
    if (channels_.workers != nullptr)
      PD_RETURN_IF_ERROR(channels_.workers->StartSum(std::span<double>(stage_.norms)));
    collective_started_ = true;
  }
  if (channels_.workers != nullptr) {
    PD_ASSIGN_OR_RETURN(bool done, channels_.workers->Advance());
    if (!done) {
      wait_collective_ = channels_.workers.get();
      return false;
    }
  }
  collective_started_ = false;
  double total = 0;
  for (double squared : stage_.norms) total += squared;
  const double norm = std::sqrt(total);
  if (!std::isfinite(norm))
    return WithReason(absl::OutOfRangeError("the gradient's norm is not finite"),
                      "NON_FINITE_GRADIENT");
  gradient_scale_ = std::min(1.0, stage_.spec.optimizer.clip_norm / (norm + 1e-6));
  return true;
}

double StageExecutor::LearningRateOf(int64_t update) const {
  const StageProgram& program = stage_.program;
  if (program.policy == WeightPolicy::kFlush)
    return LearningRate(stage_.spec.learning_rate, update);
  // An update covers r_s minibatches; the schedule counts minibatches.
  const double rate = LearningRate(stage_.spec.learning_rate, update * replicas_);
  return stage_.spec.replica_lr ? rate * replicas_ / program.shape.replicas[0] : rate;
}

absl::Status StageExecutor::Update(const Instruction& instruction) {
  const int64_t update = instruction.microbatch.value();
  WeightStore& weights = *stage_.weights;
  if (instruction.version != weights.latest() + 1)
    return Internal("the update makes version {}, but the latest is {}", instruction.version,
                    weights.latest());
  const std::byte* from = weights.latest_data();
  PD_ASSIGN_OR_RETURN(std::byte * to, weights.BeginUpdate());
  const int64_t filled = Round(update).second;
  if (filled == 0) {  // no samples at the very end of the run
    if (to != from) std::memcpy(to, from, stage_.layout.parameter_bytes);
  } else {
    update_.learning_rate = LearningRateOf(update);
    update_.gradient_scale = gradient_scale_;
    update_.step = update;
    if (const StoredTensor* fault = UpdateParameters(stage_, from, to, &update_))
      return WithReason(
          absl::OutOfRangeError(fmt::format(
              "the gradient of '{}' is not finite in update {}; lower the learning rate or clip "
              "gradients",
              fault->name, update)),
          "NON_FINITE_GRADIENT");
    if (!stage_.state_shares.empty()) AdvanceStates(stage_, filled);
  }
  weights.Publish();
  contributions_ = 0;
  gradient_scale_ = 1;
  const int64_t held = weights.alive();
  monitor_.Count([&](StageCounters& c) {
    ++c.updates;
    c.versions_held = std::max(c.versions_held, held);
  });
  return absl::OkStatus();
}

}  // namespace pipedream
