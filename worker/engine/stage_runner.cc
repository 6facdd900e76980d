#include "worker/engine/stage_runner.h"

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

MessageKind KindOf(Op op) {
  switch (op) {
    case Op::kBackward:
    case Op::kBackwardInput:
    case Op::kBackwardWeight:
    case Op::kSendGradient:
    case Op::kReceiveGradient:
      return MessageKind::kGradient;
    case Op::kEvaluate:
    case Op::kSendEvaluation:
    case Op::kReceiveEvaluation:
      return MessageKind::kEvaluation;
    default:
      return MessageKind::kActivation;
  }
}

bool IsEvaluation(Op op) {
  return op == Op::kEvaluate || op == Op::kSendEvaluation || op == Op::kReceiveEvaluation;
}

}  // namespace

bool IsPerMicrobatch(Op op) {
  const Counter counter = CounterOf(op);
  return counter == Counter::kTraining || counter == Counter::kEvaluation;
}

MessageKey StageRunner::KeyOf(const Instruction& instruction) const {
  return {KindOf(instruction.op),
          instruction.microbatch.value() | round_ << MessageKey::kIndexBits};
}

StageRunner::StageRunner(StageState* stage, StageChannels* channels, Collective* replicas,
                         StageMonitor* monitor, Clock* clock, StageRecorder* recorder)
    : stage_(*stage),
      channels_(*channels),
      replicas_(replicas),
      monitor_(*monitor),
      clock_(clock),
      recorder_(recorder),
      first_(ChunkOf(stage->shape, stage->stage) == 0),
      span_(UpdateSpan(stage->shape, stage->policy, stage->stage)),
      contributions_(stage->gradient_sums.size()) {
  auto base = [&](Region region) -> std::byte*& { return bases_.base[static_cast<int>(region)]; };
  base(Region::kArena) = stage_.arena.data();
  base(Region::kStates) = stage_.states.data();
  base(Region::kConstants) = stage_.constants.data();
  context_.seed = stage_.run.seed;
  rows_.reserve(static_cast<size_t>(stage_.run.microbatch_size()));
  held_.reserve(channels_.activation_in.size() + channels_.gradient_in.size());
  update_.state.resize(stage_.optimizer_state.size());
}

absl::StatusOr<bool> StageRunner::Run(const Instruction& instruction, Waiting* waiting) {
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
      return Receive(instruction, waiting);
    case Op::kSendActivation:
    case Op::kSendGradient:
    case Op::kSendEvaluation:
      return Send(instruction, waiting);
    case Op::kReduce:
      return Reduce(instruction, waiting);
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
    case Op::kPin:
      status = stage_.weights->Pin(instruction.version);
      break;
    case Op::kUnpin:
      stage_.weights->Unpin(instruction.version);
      break;
    case Op::kStep:
    case Op::kTie:
    case Op::kNorm:
    case Op::kValidate:
      status = Internal("{} is the executor's", Format(instruction));
      break;
  }
  if (!status.ok()) return status;
  return true;
}

absl::StatusOr<bool> StageRunner::Receive(const Instruction& instruction, Waiting* waiting) {
  auto& channels =
      instruction.op == Op::kReceiveGradient ? channels_.gradient_in : channels_.activation_in;
  auto it = channels.find(instruction.peer);
  if (it == channels.end()) return Internal("there is no channel from that peer");
  // What the sender sent before it went back is of no use any more.
  for (auto next = it->second->Peek(); next && next->round() < round_; next = it->second->Peek()) {
    PD_ASSIGN_OR_RETURN(auto stale, it->second->TryReceive(*next));
    if (stale) it->second->Release();
  }
  PD_ASSIGN_OR_RETURN(auto message, it->second->TryReceive(KeyOf(instruction)));
  if (!message.has_value()) {
    waiting->receive = it->second.get();
    return false;
  }
  held_.push_back({it->second.get(), instruction.peer.stage.value(), KeyOf(instruction), *message});
  return true;
}

absl::StatusOr<bool> StageRunner::Send(const Instruction& instruction, Waiting* waiting) {
  const bool gradient = instruction.op == Op::kSendGradient;
  auto& channels = gradient ? channels_.gradient_out : channels_.activation_out;
  auto it = channels.find(instruction.peer);
  if (it == channels.end()) return Internal("there is no channel to that peer");
  PIPEDREAM_CHECK(computed_ != nullptr);
  PD_ASSIGN_OR_RETURN(auto slot, it->second->TryAcquire());
  if (!slot.has_value()) {
    waiting->send = it->second.get();
    return false;
  }
  CompiledMessage* message = FindMessage(computed_->sent, instruction.peer.stage.value());
  const size_t bytes = message == nullptr ? 0 : message->bytes;
  if (bytes > slot->size())
    return Internal("a message of {} bytes does not fit the channel's {}", bytes, slot->size());
  if (message != nullptr) PD_RETURN_IF_ERROR(PackMessage(*message, bases_, slot->data()));
  PD_RETURN_IF_ERROR(it->second->Commit(KeyOf(instruction), bytes));
  double slowest = 0;
  for (const auto* ways : {&channels_.activation_out, &channels_.gradient_out}) {
    for (const auto& [peer, way] : *ways) {
      const double rate = way->bytes_per_s();
      if (rate > 0 && (slowest == 0 || rate < slowest)) slowest = rate;
    }
  }
  monitor_.Count([&](StageCounters& c) {
    c.sent_bytes += static_cast<int64_t>(bytes);
    c.link_bytes_per_s = slowest;
  });
  return true;
}

absl::Status StageRunner::Unpack(CompiledProgram& program, const MessageKey& key) {
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

absl::Status StageRunner::LoadSamples(CompiledStage& compiled, const Dataset* data) {
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

absl::Status StageRunner::RunProgram(CompiledProgram& program, const MessageKey& key,
                                     std::byte* state_share) {
  PD_RETURN_IF_ERROR(Unpack(program, key));
  PD_RETURN_IF_ERROR(
      RunSteps(program, bases_, stage_.arena.data() + program.arena_bytes, context_, state_share));
  computed_ = &program;
  return absl::OkStatus();
}

void StageRunner::SelectTrainingRows(const MicrobatchSamples& samples) {
  rows_.clear();
  for (int64_t k = 0; k < samples.count; ++k)
    rows_.push_back(TrainingRow(stage_.run, samples.epoch, samples.begin + k));
  context_.step = samples.minibatch;
  context_.sample_ids = rows_;
}

absl::StatusOr<WeightVersion> StageRunner::ReadVersion(WeightVersion version) {
  PD_ASSIGN_OR_RETURN(ReadWeights weights, stage_.weights->Read(version));
  bases_.base[static_cast<int>(Region::kParameters)] = weights.data;
  return weights.version;
}

absl::Status StageRunner::Forward(const Instruction& instruction) {
  const MicrobatchSamples samples = TrainingSamples(stage_.run, instruction.microbatch);
  CompiledStage& compiled = stage_.training.at(samples.count);
  SelectTrainingRows(samples);

  if (BackwardReadsForwardVersion(stage_.policy)) {
    PD_RETURN_IF_ERROR(stage_.weights->Pin(instruction.version));
    if (speculating_) kept_pins_.push_back(instruction.version);
  }
  PD_ASSIGN_OR_RETURN(const WeightVersion read, ReadVersion(instruction.version));
  if (recorder_ != nullptr) recorder_->Forward(instruction.slot, read);
  bases_.base[static_cast<int>(Region::kSlot)] = stage_.slots[instruction.slot].data();
  PD_RETURN_IF_ERROR(LoadSamples(compiled, stage_.train.get()));
  std::byte* share = nullptr;
  if (!stage_.state_shares.empty()) {
    share = stage_.state_shares[instruction.slot].data();
    std::memset(share, 0, stage_.layout.state_bytes);
  }
  PD_RETURN_IF_ERROR(RunProgram(compiled.forward, KeyOf(instruction), share));
  if (compiled.loss.present) PD_RETURN_IF_ERROR(ReportLoss(compiled, samples));
  if (first_) monitor_.Count([](StageCounters& c) { ++c.forwards; });
  return absl::OkStatus();
}

absl::Status StageRunner::ReportLoss(const CompiledStage& compiled,
                                     const MicrobatchSamples& samples) {
  float loss;
  std::memcpy(&loss, bases_.Resolve(compiled.loss), sizeof loss);
  if (std::isfinite(loss)) {
    const double sum = static_cast<double>(loss) * samples.count;
    if (speculating_)
      kept_losses_.push_back({samples.minibatch, samples.minibatch, sum, samples.count});
    else
      monitor_.AddLoss(samples.minibatch, sum, samples.count);
    return absl::OkStatus();
  }
  if (stage_.spec.on_nonfinite == OnNonFinite::kSkip) return absl::OkStatus();
  absl::Status error = WithReason(
      absl::OutOfRangeError(fmt::format(
          "the loss of minibatch {} is {}; lower the learning rate, check the data for non-finite "
          "values, or skip such minibatches (on_nonfinite: skip)",
          samples.minibatch, loss)),
      "NON_FINITE_LOSS");
  if (!speculating_) return error;
  if (kept_error_.ok()) kept_error_ = std::move(error);
  return absl::OkStatus();
}

absl::Status StageRunner::Evaluate(const Instruction& instruction) {
  const MicrobatchSamples samples = EvaluationSamples(stage_.run, instruction.microbatch);
  CompiledStage& compiled = stage_.evaluating.at(samples.count);
  rows_.clear();
  for (int64_t k = 0; k < samples.count; ++k) rows_.push_back(samples.begin + k);
  context_.step = 0;
  context_.sample_ids = rows_;
  PD_RETURN_IF_ERROR(ReadVersion(instruction.version).status());
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

absl::Status StageRunner::Backward(const Instruction& instruction) {
  const MicrobatchSamples samples = TrainingSamples(stage_.run, instruction.microbatch);
  CompiledStage& compiled = stage_.training.at(samples.count);
  SelectTrainingRows(samples);
  PD_ASSIGN_OR_RETURN(const WeightVersion read, ReadVersion(instruction.version));
  bases_.base[static_cast<int>(Region::kSlot)] = stage_.slots[instruction.slot].data();
  const MessageKey key = KeyOf(instruction);
  if (instruction.op == Op::kBackwardInput) {
    if (recorder_ != nullptr) recorder_->BackwardInput(instruction.slot, read);
    return RunProgram(compiled.backward_input, key);
  }

  const int64_t update = UpdateOfMicrobatch(instruction.microbatch);
  std::byte* target =
      contributions(update) == 0 ? stage_.gradients(update) : stage_.microbatch_gradients.data();
  if (target == nullptr)
    return Internal("a second microbatch before the update, which the schedule did not announce");
  bases_.base[static_cast<int>(Region::kGradients)] = target;
  const bool fused = instruction.op == Op::kBackward;
  PD_RETURN_IF_ERROR(RunProgram(fused ? compiled.backward : compiled.backward_weight, key));
  if (BackwardReadsForwardVersion(stage_.policy)) stage_.weights->Unpin(instruction.version);
  AddGradients(instruction, samples.count);
  if (recorder_ != nullptr)
    recorder_->Gradient(instruction.slot, instruction.microbatch, read, fused, update);
  return absl::OkStatus();
}

void StageRunner::AddGradients(const Instruction& instruction, int64_t samples) {
  const int64_t update = UpdateOfMicrobatch(instruction.microbatch);
  const int64_t total = UpdateSamples(stage_.run, span_, update);
  const bool first = contributions(update) == 0;
  AddMicrobatchGradients(stage_, update, first,
                         static_cast<float>(static_cast<double>(samples) / total));
  if (!stage_.state_shares.empty()) {
    const auto [begin, filled] = Covered(update);
    AddStateShare(stage_, update, instruction.slot,
                  filled - 1 - (instruction.microbatch.value() - begin), first);
  }
  ++contributions(update);
  if (first_) monitor_.Count([](StageCounters& c) { ++c.backwards; });
}

int64_t StageRunner::UpdateOfMicrobatch(MicrobatchId microbatch) const {
  return UpdateOf(stage_.shape, stage_.policy, stage_.stage, microbatch);
}

std::pair<int64_t, int64_t> StageRunner::Covered(int64_t update) const {
  int64_t filled = 0;
  for (int64_t k = 0; k < span_; ++k)
    if (TrainingSamples(stage_.run, MicrobatchId(update * span_ + k)).count > 0) ++filled;
  return {update * span_, filled};
}

absl::StatusOr<bool> StageRunner::Reduce(const Instruction& instruction, Waiting* waiting) {
  if (replicas_ == nullptr) return Internal("there is no collective among the replicas");
  if (!reducing_) {
    const int64_t update = instruction.microbatch.value();
    std::span<float> sum(reinterpret_cast<float*>(stage_.gradients(update)),
                         stage_.gradient_floats);
    // A replica without a microbatch in the update adds nothing.
    if (contributions(update) == 0) std::ranges::fill(sum, 0.0f);
    PD_RETURN_IF_ERROR(replicas_->StartSum(sum));
    reducing_ = true;
  }
  PD_ASSIGN_OR_RETURN(bool done, replicas_->Advance());
  if (done)
    reducing_ = false;
  else
    waiting->collective = replicas_;
  return done;
}

double StageRunner::LearningRateOf(int64_t update) const {
  if (!StepsByRound(stage_.policy)) return LearningRate(stage_.spec.learning_rate, update);
  // An update covers r_s minibatches; the schedule counts minibatches.
  const int replicas = stage_.replicas();
  const double rate = LearningRate(stage_.spec.learning_rate, update * replicas);
  return stage_.spec.replica_lr ? rate * replicas / stage_.shape.replicas[0] : rate;
}

absl::Status StageRunner::MakeVersion(int64_t update, const std::byte* from, std::byte* to,
                                      double scale, bool skip) {
  if (Covered(update).second == 0 || skip) {  // no samples at the run's end, or none that count
    if (to != from) std::memcpy(to, from, stage_.layout.parameter_bytes);
    return absl::OkStatus();
  }
  update_.learning_rate = LearningRateOf(update);
  update_.gradient_scale = scale;
  update_.step = update - skipped_;
  const StoredTensor* fault = UpdateParameters(stage_, update, from, to, &update_);
  // Of one that is not confirmed the norm will tell.
  if (fault == nullptr || speculating_) return absl::OkStatus();
  return WithReason(
      absl::OutOfRangeError(fmt::format(
          "the gradient of '{}' is not finite in update {}; lower the learning rate, clip "
          "gradients, or skip such updates (on_nonfinite: skip)",
          fault->name, update)),
      "NON_FINITE_GRADIENT");
}

absl::Status StageRunner::Update(const Instruction& instruction, double scale, bool skip) {
  const int64_t update = instruction.microbatch.value();
  WeightStore& weights = *stage_.weights;
  if (instruction.version != weights.latest() + 1)
    return Internal("the update makes version {}, but the latest is {}", instruction.version,
                    weights.latest());
  const std::byte* from = weights.latest_data();
  PD_ASSIGN_OR_RETURN(std::byte * to, weights.BeginUpdate());
  PD_RETURN_IF_ERROR(MakeVersion(update, from, to, scale, skip));
  if (skip) ++skipped_;
  const int64_t filled = Covered(update).second;
  if (filled > 0 && !stage_.state_shares.empty()) AdvanceStates(stage_, update, filled);
  weights.Publish();
  if (!speculating_) PD_RETURN_IF_ERROR(RecordPublished());
  contributions(update) = 0;
  const int64_t held = weights.alive();
  monitor_.Count([&](StageCounters& c) {
    if (first_) {
      ++c.updates;
      if (skip) ++c.skipped_updates;
    }
    c.versions_held = std::max(c.versions_held, held);
  });
  return absl::OkStatus();
}

absl::Status StageRunner::RecordPublished() {
  return recorder_ == nullptr ? absl::OkStatus() : recorder_->Published();
}

absl::Status StageRunner::Speculate(const Instruction& instruction) {
  for (size_t k = 0; k < stage_.optimizer_state.size(); ++k)
    std::memcpy(stage_.undo_optimizer_state[k].data(), stage_.optimizer_state[k].data(),
                stage_.layout.parameter_bytes);
  speculating_ = true;
  PD_RETURN_IF_ERROR(Update(instruction, 1, false));
  std::memcpy(stage_.undo_states.data(), stage_.states.data(), stage_.layout.state_bytes);
  return absl::OkStatus();
}

absl::Status StageRunner::Confirm() {
  speculating_ = false;
  for (const LossSum& loss : kept_losses_)
    monitor_.AddLoss(loss.first_minibatch, loss.loss_sum, loss.samples);
  kept_losses_.clear();
  kept_pins_.clear();
  PD_RETURN_IF_ERROR(RecordPublished());
  return std::exchange(kept_error_, absl::OkStatus());
}

absl::Status StageRunner::TakeBack(int64_t update, double scale, bool skip) {
  speculating_ = false;
  for (size_t k = 0; k < stage_.optimizer_state.size(); ++k)
    std::memcpy(stage_.optimizer_state[k].data(), stage_.undo_optimizer_state[k].data(),
                stage_.layout.parameter_bytes);
  std::memcpy(stage_.states.data(), stage_.undo_states.data(), stage_.layout.state_bytes);
  PD_ASSIGN_OR_RETURN(const ReadWeights from, stage_.weights->Read(WeightVersion(update)));
  PD_RETURN_IF_ERROR(MakeVersion(update, from.data, stage_.weights->latest_data(), scale, skip));
  PD_RETURN_IF_ERROR(RecordPublished());
  if (skip) ++skipped_;
  const auto again = static_cast<int64_t>(kept_pins_.size());
  monitor_.Count([&](StageCounters& c) {
    if (!first_) return;
    c.forwards -= again;
    ++c.undone_updates;
    if (skip) ++c.skipped_updates;
  });
  for (WeightVersion version : kept_pins_) stage_.weights->Unpin(version);
  kept_pins_.clear();
  kept_losses_.clear();
  kept_error_ = absl::OkStatus();
  ++round_;
  return absl::OkStatus();
}

}  // namespace pipedream
