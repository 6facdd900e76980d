// Carries out the instructions of one stage replica: computes, sends, receives, updates. What
// concerns the whole worker (order, norms, tied parameters, waiting) is the StageExecutor's.
//
// Threads: the executor's only. Borrows everything.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "worker/engine/ledger_recorder.h"
#include "worker/engine/stage_channels.h"
#include "worker/engine/stage_monitor.h"
#include "worker/engine/stage_state.h"

namespace pipedream {

// What an instruction that could not run waits for; null: not that.
struct Waiting {
  SendChannel* send = nullptr;
  ReceiveChannel* receive = nullptr;
  Collective* collective = nullptr;
};

class StageRunner {
 public:
  // `replicas` is the collective of the stage's replicas, null if there is one; `recorder` is null
  // if no ledger is wanted.
  StageRunner(StageState* stage, StageChannels* channels, Collective* replicas,
              StageMonitor* monitor, Clock* clock, StageRecorder* recorder);

  const StageState& state() const { return stage_; }

  // Any instruction but U, T, N and V. False if it must wait, for what `waiting` then says; it is
  // to be tried again.
  absl::StatusOr<bool> Run(const Instruction& instruction, Waiting* waiting);

  // The update: its gradient times `scale` goes to the optimizer; with `skip` the new version
  // equals the last, and the optimizer has not seen it.
  absl::Status Update(const Instruction& instruction, double scale, bool skip);

  // The update with its gradient as it is, to be confirmed or taken back before the next backward.
  // Until then only forwards run; what they report is kept back.
  absl::Status Speculate(const Instruction& instruction);
  // It holds. An error that a forward has kept back comes now.
  absl::Status Confirm();
  // It does not: the version is made anew, with `scale` or `skip`; what forwards have done since is
  // forgotten, and they run again, with messages of the next round.
  absl::Status TakeBack(int64_t update, double scale, bool skip);

 private:
  absl::StatusOr<bool> Receive(const Instruction& instruction, Waiting* waiting);
  absl::StatusOr<bool> Send(const Instruction& instruction, Waiting* waiting);
  absl::StatusOr<bool> Reduce(const Instruction& instruction, Waiting* waiting);
  absl::Status Forward(const Instruction& instruction);
  absl::Status Backward(const Instruction& instruction);  // B, I and W
  absl::Status Evaluate(const Instruction& instruction);
  absl::Status ReportLoss(const CompiledStage& compiled, const MicrobatchSamples& samples);
  // Writes the version that the update makes from version `update` to `to`.
  absl::Status MakeVersion(int64_t update, const std::byte* from, std::byte* to, double scale,
                           bool skip);
  // Lets the recorder know that the latest version stands.
  absl::Status RecordPublished();
  // Of the messages that an instruction moves or computes on.
  MessageKey KeyOf(const Instruction& instruction) const;

  void SelectTrainingRows(const MicrobatchSamples& samples);
  absl::Status LoadSamples(CompiledStage& compiled, const Dataset* data);
  // Messages in, steps, and the program is what the next sends pack from.
  absl::Status RunProgram(CompiledProgram& program, const MessageKey& key,
                          std::byte* state_share = nullptr);
  absl::Status Unpack(CompiledProgram& program, const MessageKey& key);
  // The version that programs now compute with.
  absl::StatusOr<WeightVersion> ReadVersion(WeightVersion version);
  void AddGradients(const Instruction& instruction, int64_t samples);
  // Microbatches whose gradients are in the sum of the update.
  int& contributions(int64_t update) {
    return contributions_[static_cast<size_t>(update) % contributions_.size()];
  }
  int64_t UpdateOfMicrobatch(MicrobatchId microbatch) const;
  // First microbatch of an update and how many of its microbatches hold samples.
  std::pair<int64_t, int64_t> Covered(int64_t update) const;
  double LearningRateOf(int64_t update) const;

  StageState& stage_;
  StageChannels& channels_;
  Collective* const replicas_;
  StageMonitor& monitor_;
  Clock* const clock_;
  StageRecorder* const recorder_;
  const int64_t span_;  // microbatches of an update

  Bases bases_;
  RunContext context_;
  std::vector<int64_t> rows_;
  // Messages that coming compute instructions unpack; has room for one from every channel.
  struct HeldMessage {
    ReceiveChannel* channel = nullptr;
    int stage = 0;
    MessageKey key;
    std::span<const std::byte> bytes;
  };
  std::vector<HeldMessage> held_;
  // What the next sends pack from; set by the compute instruction before them.
  CompiledProgram* computed_ = nullptr;
  UpdateArguments update_;
  std::vector<int> contributions_;  // by gradient sum
  bool reducing_ = false;
  int64_t skipped_ = 0;  // updates
  // While an update is not confirmed:
  bool speculating_ = false;
  std::vector<LossSum> kept_losses_;
  absl::Status kept_error_;
  std::vector<WeightVersion> kept_pins_;  // of the forwards since
  int64_t round_ = 0;                     // how often forwards have run again
};

// Whether the instruction moves or computes on a microbatch.
bool IsPerMicrobatch(Op op);

}  // namespace pipedream
