// Interprets a StageProgram: runs the instructions of one stage replica in order, on one thread. It
// knows no schedule by name.
//
// Threads: Step and Run belong to the executor's thread; Abort and the monitor are for any.
// Lifetime: borrows everything; the owner keeps it alive until Run has returned.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "worker/engine/stage_channels.h"
#include "worker/engine/stage_monitor.h"
#include "worker/engine/stage_state.h"

namespace pipedream {

class StageExecutor {
 public:
  enum class Outcome { kProgress, kBlocked, kDone };

  StageExecutor(StageState* stage, StageChannels* channels, StageMonitor* monitor, Clock* clock);

  // Runs the next instruction if it can run, without blocking. Errors end the run; they carry a
  // reason (NON_FINITE_LOSS, NON_FINITE_GRADIENT, PEER_LOST ...) and name stage and operation.
  absl::StatusOr<Outcome> Step();
  // Steps until the program is done, waiting where it must. The abort's cause if it was aborted.
  absl::Status Run();
  // Makes Run return `cause` soon; the first cause wins. Aborts the channels.
  void Abort(const absl::Status& cause);

 private:
  // Each returns false if it must wait; the instruction is then tried again.
  absl::StatusOr<bool> Execute(const Instruction& instruction);
  absl::StatusOr<bool> Receive(const Instruction& instruction);
  absl::StatusOr<bool> Send(const Instruction& instruction);
  absl::Status Forward(const Instruction& instruction);
  // B, I and W.
  absl::Status Backward(const Instruction& instruction);
  absl::Status Evaluate(const Instruction& instruction);
  absl::StatusOr<bool> Reduce(const Instruction& instruction);
  absl::StatusOr<bool> Norm();
  absl::Status Update(const Instruction& instruction);

  void SelectTrainingRows(const MicrobatchSamples& samples);
  absl::Status LoadSamples(CompiledStage& compiled, const Dataset* data);
  // Messages in, steps, and the program is what the next sends pack from.
  absl::Status RunProgram(CompiledProgram& program, const MessageKey& key,
                          std::byte* state_share = nullptr);
  absl::Status Unpack(CompiledProgram& program, const MessageKey& key);
  void AddGradients(const Instruction& instruction, int64_t samples);
  int64_t UpdateOfMicrobatch(MicrobatchId microbatch) const;
  // First microbatch of an update and how many of its microbatches hold samples.
  std::pair<int64_t, int64_t> Round(int64_t update) const;
  double LearningRateOf(int64_t update) const;
  absl::Status Describe(const absl::Status& status, const Instruction& instruction) const;

  StageState& stage_;
  StageChannels& channels_;
  StageMonitor& monitor_;
  Clock* const clock_;
  const int replicas_;
  ProgramCursor cursor_;

  bool begun_ = false;  // the instruction under the cursor has been tried
  Duration begun_at_{};
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
  int contributions_ = 0;  // microbatches in `gradients` since the last update
  bool collective_started_ = false;
  double gradient_scale_ = 1;
  // What Run waits on when Step says kBlocked.
  SendChannel* wait_send_ = nullptr;
  ReceiveChannel* wait_receive_ = nullptr;
  Collective* wait_collective_ = nullptr;

  mutable Mutex mutex_;
  absl::Status abort_cause_ PD_GUARDED_BY(mutex_);
};

}  // namespace pipedream
