#include "coordinator/launch/plan_run.h"

#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/job/job_schedule.h"
#include "common/job/run_shape.h"
#include "common/job/stage_flow.h"
#include "common/planner/planner.h"

namespace pipedream {

namespace {

absl::Status SetRecompute(const JobSpec& spec, const Model& model, PlanRequest* request) {
  if (!spec.recompute.enabled) return absl::OkStatus();
  PD_ASSIGN_OR_RETURN(const TrainingGraph training, BindTraining(model, spec, 2));
  PD_ASSIGN_OR_RETURN(const std::vector<NodeId> checkpoints, CheckpointNodes(spec, training));
  request->recompute = true;
  for (NodeId node : checkpoints) request->checkpoints.push_back(node.value());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PlannedRun> PlanRun(const ComputePlan& request, const Model& model) {
  const JobSpec& spec = *request.job.spec;
  PlanRequest plan_request;
  for (const auto& [kind, profile] : request.profiles) plan_request.profiles.push_back(profile);
  plan_request.topology = request.topology;
  PD_ASSIGN_OR_RETURN(const JobSchedule schedule, ScheduleOf(spec));
  plan_request.schedule = spec.schedule;
  plan_request.table = schedule.table;
  plan_request.chunks = spec.chunks;
  plan_request.microbatches = request.job.run.microbatches;
  plan_request.batch_size = request.job.run.batch_size;
  plan_request.stages = spec.stages;
  plan_request.workers = spec.workers;
  plan_request.max_replicas = spec.max_replicas;
  plan_request.warmup = spec.warmup;
  plan_request.global_norm = NeedsGlobalNorm(spec);
  // Computing again gives the same only while the weights stay.
  plan_request.may_recompute = schedule.policy != WeightPolicy::kSingle;
  PD_RETURN_IF_ERROR(SetRecompute(spec, model, &plan_request));
  Duration begin = SystemClock()->Now();
  PD_ASSIGN_OR_RETURN(Plan plan, MakePlan(plan_request));
  PD_ASSIGN_OR_RETURN(ScheduleShape shape, ShapeOfRun(spec, request.job.run, plan.replicas(),
                                                      plan.warmup(), plan.device_of));
  PD_RETURN_IF_ERROR(SetStageFlow(model, spec, plan.stage_of(), &shape));
  PD_ASSIGN_OR_RETURN(std::vector<StageProgram> programs, MakePrograms(spec, shape));
  plan.planning_s = ToSeconds(SystemClock()->Now() - begin);
  return PlannedRun{std::move(plan),
                    std::make_shared<const std::vector<StageProgram>>(std::move(programs))};
}

}  // namespace pipedream
