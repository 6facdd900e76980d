#include "worker/engine/stage_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/base/status.h"

namespace pipedream {
namespace {

constexpr Duration kWaitSlice = std::chrono::milliseconds(100);

MessageKey KeyOf(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::kSendGradient:
    case Op::kReceiveGradient:
      return {MessageKind::kGradient, instruction.microbatch.value()};
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

void ScaleInPlace(float* values, size_t count, float factor) {
  for (size_t i = 0; i < count; ++i) values[i] *= factor;
}

void AddScaled(float* sum, const float* values, size_t count, float factor) {
  for (size_t i = 0; i < count; ++i) sum[i] += factor * values[i];
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
  CountTime(instruction, ToSeconds(clock_->Now() - begun_at_));
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
    case Op::kBackwardInput:
    case Op::kBackwardWeight:
      return Unimplemented("split backward passes are not available on this worker");
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
  held_ = it->second.get();
  held_message_ = *message;
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
  const size_t bytes = gradient ? computed_->gradient_out_bytes : computed_->activation_out_bytes;
  if (bytes > slot->size())
    return Internal("a message of {} bytes does not fit the channel's {}", bytes, slot->size());
  PD_RETURN_IF_ERROR(
      Pack(gradient ? computed_->gradients_out : computed_->activations_out, slot->data()));
  PD_RETURN_IF_ERROR(it->second->Commit(KeyOf(instruction), bytes));
  monitor_.Count([&](StageCounters& c) { c.sent_bytes += static_cast<int64_t>(bytes); });
  return true;
}

absl::Status StageExecutor::Pack(std::vector<MessageItem>& items, std::byte* message) {
  for (MessageItem& item : items) {
    const void* source = bases_.Resolve(item.place);
    void* target = message + item.message_offset;
    if (item.reorder == nullptr) {
      std::memcpy(target, source, item.bytes);
    } else {
      PD_RETURN_IF_ERROR(item.reorder->Run({{&source, 1}, {&target, 1}, nullptr, nullptr}));
    }
  }
  return absl::OkStatus();
}

absl::Status StageExecutor::Unpack(std::vector<MessageItem>& items) {
  if (items.empty()) return absl::OkStatus();
  if (held_ == nullptr) return Internal("the message to compute on was not received");
  const MessageItem& last = items.back();
  if (held_message_.size() < last.message_offset + last.bytes)
    return Internal(
        "a message of {} bytes where {} were expected: the two stages were cut from "
        "different graphs",
        held_message_.size(), last.message_offset + last.bytes);
  for (MessageItem& item : items)
    std::memcpy(bases_.Resolve(item.place), held_message_.data() + item.message_offset, item.bytes);
  std::exchange(held_, nullptr)->Release();
  return absl::OkStatus();
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

absl::Status StageExecutor::RunProgram(CompiledProgram& program, std::byte* state_share) {
  std::byte*& states = bases_.base[static_cast<int>(Region::kStates)];
  std::byte* scratch = stage_.arena.data() + program.arena_bytes;
  for (CompiledStep& step : program.steps) {
    if (step.kernel == nullptr) continue;
    const bool deferred = step.updates_state && state_share != nullptr;
    if (deferred) states = state_share;
    for (size_t i = 0; i < step.inputs.size(); ++i)
      step.input_pointers[i] = bases_.Resolve(step.inputs[i]);
    for (size_t i = 0; i < step.outputs.size(); ++i)
      step.output_pointers[i] = bases_.Resolve(step.outputs[i]);
    if (deferred) states = stage_.states.data();
    PD_RETURN_IF_ERROR(
        step.kernel->Run({step.input_pointers, step.output_pointers, scratch, &context_}));
  }
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
  PD_RETURN_IF_ERROR(Unpack(compiled.activations_in));
  std::byte* share = nullptr;
  if (!stage_.state_shares.empty()) {
    share = stage_.state_shares[instruction.slot].data();
    std::memset(share, 0, stage_.layout.state_bytes);
  }
  PD_RETURN_IF_ERROR(RunProgram(compiled.forward, share));
  computed_ = &compiled;

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
  PD_RETURN_IF_ERROR(Unpack(compiled.activations_in));
  PD_RETURN_IF_ERROR(RunProgram(compiled.forward, nullptr));
  computed_ = &compiled;

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

  const bool first = contributions_ == 0;
  DeviceBuffer& target = first ? stage_.gradients : stage_.microbatch_gradients;
  if (target.data() == nullptr)
    return Internal("a second microbatch before the update, which the schedule did not announce");
  PD_ASSIGN_OR_RETURN(bases_.base[static_cast<int>(Region::kParameters)],
                      stage_.weights->Data(instruction.version));
  bases_.base[static_cast<int>(Region::kSlot)] = stage_.slots[instruction.slot].data();
  bases_.base[static_cast<int>(Region::kGradients)] = target.data();
  PD_RETURN_IF_ERROR(Unpack(compiled.gradients_in));
  PD_RETURN_IF_ERROR(RunProgram(compiled.backward, nullptr));
  stage_.weights->Unpin(instruction.version);

  const int64_t total = UpdateSamples(stage_.run, stage_.program.policy, replicas_,
                                      UpdateOfMicrobatch(instruction.microbatch));
  const float weight = static_cast<float>(static_cast<double>(samples.count) / total);
  const size_t count = stage_.layout.parameter_bytes / sizeof(float);
  float* sum = reinterpret_cast<float*>(stage_.gradients.data());
  if (first) {
    if (weight != 1.0f) ScaleInPlace(sum, count, weight);
  } else {
    AddScaled(sum, reinterpret_cast<const float*>(target.data()), count, weight);
  }
  if (!stage_.state_shares.empty()) AddStateShares(instruction);
  ++contributions_;
  computed_ = &compiled;
  monitor_.Count([](StageCounters& c) { ++c.backwards; });
  return absl::OkStatus();
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

void StageExecutor::AddStateShares(const Instruction& instruction) {
  const auto [begin, filled] = Round(UpdateOfMicrobatch(instruction.microbatch));
  const int64_t later = filled - 1 - (instruction.microbatch.value() - begin);
  std::byte* sum = stage_.gradients.data() + stage_.layout.parameter_bytes;
  const std::byte* share = stage_.state_shares[instruction.slot].data();
  for (size_t i = 0; i < stage_.layout.states.size(); ++i) {
    const StoredTensor& state = stage_.layout.states[i];
    const size_t count = state.spec.bytes / sizeof(float);
    float* to = reinterpret_cast<float*>(sum + state.offset);
    if (contributions_ == 0) std::memset(to, 0, state.spec.bytes);
    AddScaled(to, reinterpret_cast<const float*>(share + state.offset), count,
              static_cast<float>(std::pow(stage_.state_momentum[i], static_cast<double>(later))));
  }
}

void StageExecutor::AdvanceStates(int64_t update) {
  const int64_t filled = Round(update).second;
  const std::byte* sum = stage_.gradients.data() + stage_.layout.parameter_bytes;
  for (size_t i = 0; i < stage_.layout.states.size(); ++i) {
    if (stage_.state_momentum[i] == 0) continue;
    const StoredTensor& state = stage_.layout.states[i];
    const size_t count = state.spec.bytes / sizeof(float);
    float* values = reinterpret_cast<float*>(stage_.states.data() + state.offset);
    ScaleInPlace(
        values, count,
        static_cast<float>(std::pow(stage_.state_momentum[i], static_cast<double>(filled))));
    AddScaled(values, reinterpret_cast<const float*>(sum + state.offset), count, 1.0f);
  }
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
    std::ranges::fill(stage_.norms, 0.0);
    // Replicas hold equal gradients after the reduction; one of them speaks for the stage.
    if (stage_.program.replica.value() == 0) {
      const std::byte* base = stage_.gradients.data();
      for (size_t i = 0; i < stage_.layout.parameters.size(); ++i) {
        const StoredTensor& p = stage_.layout.parameters[i];
        stage_.norms[stage_.global_index[i]] = SquaredNorm(
            {reinterpret_cast<const float*>(base + p.offset), p.spec.bytes / sizeof(float)});
      }
    }
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
  if (Round(update).second == 0) {  // no samples at the very end of the run
    if (to != from) std::memcpy(to, from, stage_.layout.parameter_bytes);
  } else {
    UpdateArguments arguments;
    arguments.learning_rate = LearningRateOf(update);
    arguments.gradient_scale = gradient_scale_;
    arguments.step = update;
    arguments.state.resize(stage_.optimizer_state.size());
    for (const StoredTensor& p : stage_.layout.parameters) {
      const size_t count = p.spec.bytes / sizeof(float);
      auto floats = [&](std::byte* base) {
        return std::span<float>(reinterpret_cast<float*>(base + p.offset), count);
      };
      arguments.weights = {reinterpret_cast<const float*>(from + p.offset), count};
      arguments.new_weights = floats(to);
      arguments.gradient = floats(stage_.gradients.data());
      for (size_t k = 0; k < arguments.state.size(); ++k)
        arguments.state[k] = floats(stage_.optimizer_state[k].data());
      if (!stage_.optimizer->Update(arguments))
        return WithReason(
            absl::OutOfRangeError(fmt::format(
                "the gradient of '{}' is not finite in update {}; lower the learning rate or clip "
                "gradients",
                p.name, update)),
            "NON_FINITE_GRADIENT");
    }
    if (!stage_.state_shares.empty()) AdvanceStates(update);
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

void StageExecutor::CountTime(const Instruction& instruction, double seconds) {
  monitor_.Count([&](StageCounters& c) {
    switch (instruction.op) {
      case Op::kForward:
      case Op::kEvaluate:
        c.forward_s += seconds;
        break;
      case Op::kBackward:
      case Op::kBackwardInput:
      case Op::kBackwardWeight:
        c.backward_s += seconds;
        break;
      case Op::kStep:
        c.step_s += seconds;
        break;
      case Op::kReceiveActivation:
      case Op::kReceiveGradient:
      case Op::kReceiveEvaluation:
        c.wait_receive_s += seconds;
        break;
      case Op::kSendActivation:
      case Op::kSendGradient:
      case Op::kSendEvaluation:
        c.wait_send_s += seconds;
        break;
      case Op::kReduce:
      case Op::kNorm:
        c.reduce_s += seconds;
        break;
      case Op::kPin:
      case Op::kUnpin:
        break;
    }
  });
}

}  // namespace pipedream
