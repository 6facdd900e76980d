#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>

#include "common/schedule/builders/builders.h"

namespace pipedream {
namespace {

// Where evaluations go: on every stage alike just before the forwards of one microbatch, so that
// forwards and evaluations cross every boundary in one global order and both ends of each channel
// agree.
class EvaluationGate {
 public:
  EvaluationGate(const ScheduleShape& shape, const AsyncRule& rule) : shape_(shape), rule_(rule) {}

  // The first training microbatch whose forward comes after the evaluation of `epoch`: the earliest
  // that fits where every stage has made the updates of the epoch. If none does, channels must hold
  // the evaluation's messages.
  int64_t FirstAfter(int64_t epoch) const {
    int64_t first = 0;
    int64_t period = 1;
    for (int s = 0; s < shape_.stages(); ++s) {
      const int64_t updates = EvaluationVersion(shape_, rule_.policy, StageId(s), epoch).value();
      first = std::max(first, updates * Span(s) + Ahead(s) + Delay(s));
      period = std::min(std::lcm(period, std::lcm(Span(s), int64_t{shape_.replicas[s]})),
                        kMaxMicrobatches);
    }
    for (int64_t candidate = first; candidate < first + period; ++candidate) {
      if (Fits(candidate)) return candidate;
    }
    return (first + period - 1) / period * period;
  }

 private:
  // In microbatches: how far stage s runs ahead of its backwards, and what an update covers.
  int64_t Ahead(int s) const { return rule_.depth[s] * shape_.replicas[s]; }
  int64_t Delay(int s) const { return rule_.delay[s] * shape_.replicas[s]; }
  int64_t Span(int s) const { return UpdateSpan(shape_, rule_.policy, StageId(s)); }

  // Whether every stage can run its evaluation just before its forwards of `first` and later ones,
  // with all backwards below first - Ahead(s) behind it.
  bool Fits(int64_t first) const {
    for (int s = 0; s < shape_.stages(); ++s) {
      // Through the reductions a replica also waits for the rest of an update that it has done its
      // part of; the stage behind must give it before its own evaluation.
      const int64_t done = first - Ahead(s);
      if (s + 1 < shape_.stages() && shape_.replicas[s] > 1 &&
          (done + Span(s) - 1) / Span(s) * Span(s) > first - Ahead(s + 1)) {
        return false;
      }
      // Through norms and ties it waits for stage 0 to come to the end of the updates it has made.
      const bool waits = shape_.global_norm || !shape_.tied_stages.empty();
      if (waits && NormLag(shape_, rule_.policy) == 0 &&
          (done - Delay(s)) / Span(s) > (first - Ahead(0)) / Span(0)) {
        return false;
      }
    }
    return true;
  }

  const ScheduleShape& shape_;
  const AsyncRule& rule_;
};

// One replica's program, forward by forward and backward by backward.
class Emitter {
 public:
  Emitter(const ScheduleShape& shape, StageId stage, ReplicaId replica, const AsyncRule& rule)
      : shape_(shape),
        stage_(stage),
        replica_(replica),
        rule_(rule),
        gate_(shape, rule),
        total_(shape.microbatches()),
        span_(UpdateSpan(shape, rule.policy, stage)),
        updates_(UpdateCount(shape, rule.policy, stage)),
        count_(Own(0) < total_ ? (total_ - 1 - Own(0)) / stride() + 1 : 0) {
    SetGate();
  }

  std::vector<Instruction> Run() {
    const int64_t depth = rule_.depth[stage_.value()];
    program_.reserve(3 * count_);
    for (int64_t k = 0; k < depth; ++k) Forward(k);
    for (int64_t k = 0; k < count_; ++k) {
      // What this replica has no part in comes due before its next microbatch.
      FinishUpdates(k);
      UpdateUntil(k - 1);
      Forward(k + depth);
      Backward(k);
    }
    FinishUpdates(count_);
    MakeUpdates(updates_);
    for (; epoch_ < shape_.epochs; ++epoch_) {
      AppendEvaluation(shape_, stage_, replica_, epoch_, program_);
    }
    return std::move(program_);
  }

 private:
  struct Pending {
    int64_t update;
    int64_t due;  // the backward after which it is made
  };

  int64_t stride() const { return shape_.replicas[stage_.value()]; }
  int64_t Own(int64_t k) const { return replica_.value() + k * stride(); }

  void SetGate() {
    next_gate_ =
        epoch_ + 1 < shape_.epochs ? gate_.FirstAfter(epoch_) : std::numeric_limits<int64_t>::max();
  }

  // Forward k, if there is one, or the place where it would be: evaluations have theirs alike.
  void Forward(int64_t k) {
    while (Own(k) >= next_gate_) {
      AppendEvaluation(shape_, stage_, replica_, epoch_++, program_);
      SetGate();
    }
    if (k >= count_) return;
    const MicrobatchId microbatch(Own(k));
    // Where this replica has no part in updates, nothing else has called for them.
    if (auto version = ForwardVersion(shape_, rule_.policy, stage_, microbatch)) {
      MakeUpdates(version->value());
    }
    program_.push_back({.op = Op::kForward, .microbatch = microbatch});
  }

  void Backward(int64_t k) {
    program_.push_back({.op = Op::kBackward, .microbatch = MicrobatchId(Own(k))});
    FinishUpdates(k + 1);
    UpdateUntil(k);
  }

  // Updates of which this replica has done all its microbatches, now that it has done `done`.
  void FinishUpdates(int64_t done) {
    done_ = done;
    while (finished_ < updates_ && Own(done) >= std::min((finished_ + 1) * span_, total_)) {
      pending_.push_back({finished_++, done - 1 + rule_.delay[stage_.value()]});
    }
  }

  void UpdateUntil(int64_t backward) {
    while (!pending_.empty() && pending_.front().due <= backward) MakeUpdates(made_ + 1);
  }

  // Updates below `end`, as far as they are finished.
  void MakeUpdates(int64_t end) {
    FinishUpdates(done_);
    while (made_ < end && !pending_.empty()) {
      program_.push_back({.op = Op::kStep, .microbatch = MicrobatchId(made_++)});
      pending_.pop_front();
    }
  }

  const ScheduleShape& shape_;
  StageId stage_;
  ReplicaId replica_;
  const AsyncRule& rule_;
  EvaluationGate gate_;
  int64_t total_, span_, updates_;
  int64_t count_;         // of the replica's microbatches
  int64_t done_ = 0;      // backwards
  int64_t finished_ = 0;  // updates of which all the replica's backwards are done
  int64_t made_ = 0;      // updates
  std::deque<Pending> pending_;
  int64_t epoch_ = 0;
  int64_t next_gate_ = 0;
  std::vector<Instruction> program_;
};

}  // namespace

std::vector<Instruction> EmitAsynchronous(const ScheduleShape& shape, StageId stage,
                                          ReplicaId replica, const AsyncRule& rule) {
  return Emitter(shape, stage, replica, rule).Run();
}

}  // namespace pipedream
