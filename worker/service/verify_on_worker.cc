#include "worker/service/verify_on_worker.h"

#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/codec/job_codec.h"
#include "common/codec/ledger_codec.h"
#include "common/codec/lists.h"
#include "common/codec/plan_codec.h"
#include "worker/engine/verify_run.h"

namespace pipedream {
namespace {

std::vector<std::string> NamesOf(const std::vector<ColumnSpec>& columns) {
  std::vector<std::string> names;
  for (const ColumnSpec& column : columns) names.push_back(column.name);
  return names;
}

}  // namespace

absl::StatusOr<VerifyReport> VerifyOnWorker(const v1::VerifyRunRequest& request,
                                            JobFileCache* files, Device* device,
                                            const std::string& work_folder,
                                            const JobFileCache::Cancelled& cancelled) {
  VerifyInputs inputs;
  SimulationOptions& run = inputs.run;
  PD_ASSIGN_OR_RETURN(run.spec, FromProto(request.job().spec()));
  PD_ASSIGN_OR_RETURN(run.run, FromProto(request.job().run()));
  PD_RETURN_IF_ERROR(Validate(run.run));
  PD_ASSIGN_OR_RETURN(Plan plan, FromProto(request.plan()));
  run.stage_of = plan.stage_of();
  run.replicas = plan.replicas();
  run.warmup = plan.warmup();
  run.device_of = plan.device_of;
  run.device = device;
  std::vector<StageLedger> ledgers;
  PD_RETURN_IF_ERROR(ReadAll(request.ledger(), "VerifyRunRequest.ledger", &ledgers));
  PD_ASSIGN_OR_RETURN(inputs.ledger, MergeLedgers(std::move(ledgers)));
  for (const v1::LossPoint& point : request.curve())
    inputs.losses.push_back(
        {point.first_minibatch(), point.last_minibatch(), point.loss_sum(), point.samples()});
  inputs.result_sha256 = request.result_sha256();
  inputs.minibatches = request.minibatches();
  inputs.budget_s = request.budget_s();
  inputs.work_folder = work_folder;
  inputs.cancelled = cancelled;
  PD_ASSIGN_OR_RETURN(run.model, files->OpenModel(run.spec, cancelled));
  PD_ASSIGN_OR_RETURN(run.train, files->OpenDataset(run.spec, *run.model, run.spec.train_columns,
                                                    NamesOf(run.spec.train_columns), cancelled));
  if (run.run.evaluation_samples > 0) {
    PD_ASSIGN_OR_RETURN(run.evaluation,
                        files->OpenDataset(run.spec, *run.model, run.spec.evaluation_columns,
                                           NamesOf(run.spec.evaluation_columns), cancelled));
  }
  return VerifyRun(inputs, SystemClock());
}

}  // namespace pipedream
