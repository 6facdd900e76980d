#include "common/rpc/grpc_status.h"
#include "coordinator/codec/job_record_codec.h"
#include "coordinator/service/coordinator_service.h"

namespace pipedream {

grpc::Status CoordinatorService::ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                                             v1::ListWorkersResponse* response) {
  auto workers = coordinator_->Workers();
  if (!workers.ok()) return ToGrpcStatus(workers.status());
  for (const WorkerView& view : *workers) {
    v1::Worker* worker = response->add_workers();
    *worker = ToProto(view.worker.info);
    worker->set_state(view.worker.lost       ? v1::Worker::STATE_LOST
                      : view.assignment.busy ? v1::Worker::STATE_BUSY
                                             : v1::Worker::STATE_IDLE);
    worker->set_job_id(view.assignment.job_id);
    worker->set_stage(view.assignment.stage);
    worker->set_replica(view.assignment.replica);
    worker->set_registered_us(view.worker.registered_us);
    worker->set_last_heartbeat_us(view.worker.last_heartbeat_us);
  }
  return grpc::Status::OK;
}

}  // namespace pipedream
