#include "coordinator/launch/plan_run.h"

#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/job/job_schedule.h"
#include "common/job/run_shape.h"
#include "common/job/stage_flow.h"
#include "common/planner/job_request.h"

namespace pipedream {

absl::StatusOr<PlannedRun> PlanRun(const ComputePlan& request, const Model& model) {
  const JobSpec& spec = *request.job.spec;
  std::vector<Profile> profiles;
  for (const auto& [kind, profile] : request.profiles) profiles.push_back(profile);
  Duration begin = SystemClock()->Now();
  PD_ASSIGN_OR_RETURN(const PlanRequest plan_request,
                      PlanRequestOf(spec, std::move(profiles), request.topology));
  PD_ASSIGN_OR_RETURN(Plan plan, PlanOf(spec, plan_request));
  PD_ASSIGN_OR_RETURN(ScheduleShape shape, ShapeOfRun(spec, request.job.run, plan.replicas(),
                                                      plan.warmup(), plan.device_of));
  PD_RETURN_IF_ERROR(SetStageFlow(model, spec, plan.stage_of(), &shape));
  PD_ASSIGN_OR_RETURN(std::vector<StageProgram> programs, MakePrograms(spec, shape));
  plan.planning_s = ToSeconds(SystemClock()->Now() - begin);
  return PlannedRun{std::move(plan),
                    std::make_shared<const std::vector<StageProgram>>(std::move(programs))};
}

absl::StatusOr<PlanReconsidered::Answer> Reconsider(const ReconsiderPlan& request) {
  std::vector<Profile> profiles;
  for (const auto& [kind, profile] : request.profiles) profiles.push_back(profile);
  PD_ASSIGN_OR_RETURN(const PlanRequest plan_request,
                      PlanRequestOf(*request.job.spec, std::move(profiles), request.topology));
  PlanReconsidered::Answer answer;
  PD_ASSIGN_OR_RETURN(answer.current, EvaluatePlan(plan_request, request.plan));
  PD_ASSIGN_OR_RETURN(answer.best, MakePlan(plan_request));
  return answer;
}

}  // namespace pipedream
