// Verifying runs that are over, on workers that are idle.
#include <utility>

#include "common/base/status.h"
#include "coordinator/job/active_job.h"
#include "coordinator/job/job_machine.h"

namespace pipedream {

void JobMachine::On(const VerifyRequested& event) {
  const std::string& id = event.order->id;
  const std::vector<WorkerInfo> idle = IdleWorkers();
  if (stopping_ || idle.empty()) {
    effects_.push_back(AnswerVerify{
        id, WithReason(FailedPrecondition("a run is replayed on an idle worker, and none of the {} "
                                          "registered is idle; try again when a job has ended, or "
                                          "start one more worker",
                                          workers_.size()),
                       "NO_IDLE_WORKER")});
    return;
  }
  workers_[idle.front().id].job_id = id;
  verifications_[id] = idle.front().id;
  effects_.push_back(StartVerify{event.order, idle.front()});
}

void JobMachine::On(const VerifyDone& event) {
  auto it = verifications_.find(event.id);
  if (it == verifications_.end()) return;  // its worker was lost
  workers_[it->second].job_id.clear();
  verifications_.erase(it);
  effects_.push_back(CancelCalls{event.id});
  effects_.push_back(AnswerVerify{event.id, event.report});
}

void JobMachine::EndVerifications(const std::function<bool(const std::string& worker_id)>& which,
                                  const absl::Status& cause) {
  for (auto it = verifications_.begin(); it != verifications_.end();) {
    if (!which(it->second)) {
      ++it;
      continue;
    }
    effects_.push_back(CancelCalls{it->first});
    effects_.push_back(AnswerVerify{it->first, cause});
    auto worker = workers_.find(it->second);
    if (worker != workers_.end()) worker->second.job_id.clear();
    it = verifications_.erase(it);
  }
}

}  // namespace pipedream
