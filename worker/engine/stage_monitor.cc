#include "worker/engine/stage_monitor.h"

#include <algorithm>
#include <utility>

namespace pipedream {

void StageMonitor::Begin(const Instruction& instruction) {
  MutexLock lock(mutex_);
  current_ = instruction;
}

Instruction StageMonitor::current() const {
  MutexLock lock(mutex_);
  return current_;
}

StageCounters StageMonitor::counters() const {
  MutexLock lock(mutex_);
  return counters_;
}

void StageMonitor::AddLoss(int64_t minibatch, double loss_sum, int64_t samples) {
  MutexLock lock(mutex_);
  if (!losses_.empty() && losses_.back().last_minibatch == minibatch) {
    losses_.back().loss_sum += loss_sum;
    losses_.back().samples += samples;
    return;
  }
  if (losses_.size() == kMaxPoints) {
    for (size_t i = 0; i < kMaxPoints / 2; ++i) {
      const LossSum& a = losses_[2 * i];
      const LossSum& b = losses_[2 * i + 1];
      losses_[i] = {a.first_minibatch, b.last_minibatch, a.loss_sum + b.loss_sum,
                    a.samples + b.samples};
    }
    losses_.resize(kMaxPoints / 2);
  }
  losses_.push_back({minibatch, minibatch, loss_sum, samples});
}

void StageMonitor::AddEvaluation(const EvaluationSum& share) {
  MutexLock lock(mutex_);
  if (!evaluations_.empty() && evaluations_.back().epoch == share.epoch) {
    EvaluationSum& sum = evaluations_.back();
    sum.loss_sum += share.loss_sum;
    if (share.correct >= 0) sum.correct = std::max<int64_t>(sum.correct, 0) + share.correct;
    sum.positions += share.positions;
    sum.samples += share.samples;
    return;
  }
  evaluations_.push_back(share);
}

std::vector<LossSum> StageMonitor::TakeLosses() {
  MutexLock lock(mutex_);
  return std::exchange(losses_, {});
}

std::vector<EvaluationSum> StageMonitor::TakeEvaluations() {
  MutexLock lock(mutex_);
  return std::exchange(evaluations_, {});
}

void StageMonitor::AddTime(Op op, double seconds) {
  Count([&](StageCounters& c) {
    switch (op) {
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
      case Op::kTie:
      case Op::kNorm:
      case Op::kValidate:
        c.reduce_s += seconds;
        break;
      case Op::kPin:
      case Op::kUnpin:
        break;
    }
  });
}

}  // namespace pipedream
