// Interprets a StageProgram: runs the instructions of one worker in order, on one thread, and
// beside them the sums that updates wait for. It knows no schedule by name.
//
// Threads: Step and Run belong to the executor's thread; Abort and the monitor are for any.
// Lifetime: borrows everything; the owner keeps it alive until Run has returned.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "worker/collective/queued_sum.h"
#include "worker/engine/span_recorder.h"
#include "worker/engine/stage_channels.h"
#include "worker/engine/stage_monitor.h"
#include "worker/engine/stage_runner.h"
#include "worker/engine/stage_state.h"

namespace pipedream {

class StageExecutor {
 public:
  enum class Outcome { kProgress, kBlocked, kDone };

  // `stages` and channels->stages are by chunk of the program. `spans` is told of every instruction
  // that has run, `ledger`, of these stages, of the weights that they use; null: nobody is. Every
  // instruction that computes takes `slowdown` times as long: a sleep follows it.
  StageExecutor(const StageProgram* program, const std::vector<StageState*>& stages,
                WorkerChannels* channels, StageMonitor* monitor, Clock* clock,
                SpanRecorder* spans = nullptr, LedgerRecorder* ledger = nullptr,
                double slowdown = 1);

  // Runs the next instruction if it can run, without blocking. Errors end the run; they carry a
  // reason (NON_FINITE_LOSS, NON_FINITE_GRADIENT, PEER_LOST ...) and name stage and operation.
  absl::StatusOr<Outcome> Step();
  // Steps until the program is done, waiting where it must. The abort's cause if it was aborted.
  absl::Status Run();
  // Makes Run return `cause` soon; the first cause wins. Aborts the channels.
  void Abort(const absl::Status& cause);

 private:
  // Where a shared parameter of this worker lies among those of all tied stages.
  struct TiedPart {
    int chunk = 0;
    size_t parameter = 0;  // of the stage's layout
    size_t offset = 0;     // floats
  };

  absl::StatusOr<bool> Execute(const Instruction& instruction);
  // After `busy` of computing; shorter if the run is aborted.
  void SlowDown(Duration busy);
  absl::StatusOr<bool> Tie(int64_t update);
  absl::StatusOr<bool> Norm(int64_t norm);
  absl::StatusOr<bool> Update(const Instruction& instruction);
  absl::StatusOr<bool> Validate(int64_t update);
  // What the whole model's norm says about an update; nullopt: it is not there yet.
  struct Verdict {
    double scale = 1;
    bool skip = false;
  };
  absl::StatusOr<std::optional<Verdict>> Judge(const StageState& stage, int64_t update);
  absl::Status AdvanceSums();
  bool sums_pending() const;
  void PlaceTiedParts();
  // Puts the tied parameters' whole gradients into the stage's sum.
  void TakeTiedGradients(int chunk, int64_t update);
  // Squared norms of all tied parameters.
  void AddTiedNorms(int64_t update, std::span<double> norms);

  absl::Status Describe(const absl::Status& status, const Instruction& instruction) const;

  const StageProgram& program_;
  WorkerChannels& channels_;
  StageMonitor& monitor_;
  Clock* const clock_;
  SpanRecorder* const spans_;
  const double slowdown_;
  Duration owed_{};                   // of sleep; what one sleep is too long the next is shorter
  std::vector<StageRunner> runners_;  // by chunk
  ProgramCursor cursor_;

  bool begun_ = false;  // the instruction under the cursor has been tried
  Duration begun_at_{};
  Waiting waiting_;                           // what Run waits on when Step says kBlocked
  std::unique_ptr<QueuedSum<double>> norms_;  // a squared norm per parameter of the model
  std::unique_ptr<QueuedSum<float>> ties_;
  std::vector<TiedPart> tied_parts_;
  bool speaks_for_tied_ = false;  // the worker has the first tied stage: it knows all their norms
  // Updates that are made before their norm is known. Whether the next one is follows from the norm
  // of the last, which all workers know: where that had to be clipped, this one will too.
  bool speculates_ = true;
  int64_t settled_ = -1;        // the newest update that holds
  ProgramCursor after_update_;  // where to go on if the newest update must be made anew

  mutable Mutex mutex_;
  absl::Status abort_cause_ PD_GUARDED_BY(mutex_);
};

}  // namespace pipedream
