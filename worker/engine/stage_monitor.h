// What a worker's stage, or stages, are doing, for heartbeats and people. The executor writes,
// anyone reads. Thread-safe; the lists are bounded: when nobody takes them, neighbouring points are
// merged.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/mutex.h"
#include "common/schedule/instruction.h"

namespace pipedream {

struct StageCounters {
  // Of the worker's first stage, if it has several: what its backward has finished is finished.
  int64_t forwards = 0;  // microbatches
  int64_t backwards = 0;
  int64_t updates = 0;
  int64_t skipped_updates = 0;  // because something was not finite
  int64_t undone_updates = 0;   // made before the norm was known, and made anew
  // Of all its stages.
  double forward_s = 0;  // evaluation included
  double backward_s = 0;
  double step_s = 0;
  double wait_receive_s = 0;
  double wait_send_s = 0;
  double reduce_s = 0;  // all-reduce and norms, waiting included
  double load_s = 0;    // reading samples; part of forward_s
  int64_t sent_bytes = 0;
  double link_bytes_per_s = 0;  // of its slowest way to another stage; 0: not known
  int64_t versions_held = 1;
};

// Mean training loss of minibatches [first, last], as sums.
struct LossSum {
  int64_t first_minibatch = 0;
  int64_t last_minibatch = 0;
  double loss_sum = 0;  // over samples
  int64_t samples = 0;
};

// One replica's share of an evaluation.
struct EvaluationSum {
  int64_t epoch = 0;
  double loss_sum = 0;
  int64_t correct = -1;  // -1: the loss counts none
  int64_t positions = 0;
  int64_t samples = 0;
};

class StageMonitor {
 public:
  // The instruction that is about to run, or that waits.
  void Begin(const Instruction& instruction);
  Instruction current() const;
  template <typename F>
  void Count(F&& change) {
    MutexLock lock(mutex_);
    change(counters_);
  }
  // What an instruction took, under its kind's counter.
  void AddTime(Op op, double seconds);
  StageCounters counters() const;
  void AddLoss(int64_t minibatch, double loss_sum, int64_t samples);
  void AddEvaluation(const EvaluationSum& share);
  // Everything since the last call.
  std::vector<LossSum> TakeLosses();
  std::vector<EvaluationSum> TakeEvaluations();

 private:
  static constexpr size_t kMaxPoints = 4096;
  mutable Mutex mutex_;
  Instruction current_ PD_GUARDED_BY(mutex_);
  StageCounters counters_ PD_GUARDED_BY(mutex_);
  std::vector<LossSum> losses_ PD_GUARDED_BY(mutex_);
  std::vector<EvaluationSum> evaluations_ PD_GUARDED_BY(mutex_);
};

}  // namespace pipedream
