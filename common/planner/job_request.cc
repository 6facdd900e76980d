#include "common/planner/job_request.h"

#include <fnmatch.h>

#include <set>
#include <string>
#include <utility>

#include "common/base/nearest_name.h"
#include "common/base/status.h"
#include "common/job/job_schedule.h"

namespace pipedream {
namespace {

absl::Status SetRecompute(const JobSpec& spec, PlanRequest* request) {
  if (!spec.recompute.enabled) return absl::OkStatus();
  request->recompute = true;
  std::vector<std::string> names;
  if (!request->profiles.empty())
    for (const NodeProfile& node : request->profiles[0].nodes) names.push_back(node.name);
  std::set<int> kept;
  for (const std::string& pattern : spec.recompute.checkpoints) {
    bool found = false;
    for (size_t n = 0; n < names.size(); ++n) {
      if (names[n] != pattern && fnmatch(pattern.c_str(), names[n].c_str(), 0) != 0) continue;
      kept.insert(static_cast<int>(n));
      found = true;
    }
    if (!found) {
      return InvalidArgument(
          "recompute: no node of the profile is called '{}'; did you "
          "mean '{}'?",
          pattern, NearestName(pattern, names));
    }
  }
  request->checkpoints.assign(kept.begin(), kept.end());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PlanRequest> PlanRequestOf(const JobSpec& spec, std::vector<Profile> profiles,
                                          ClusterTopology topology) {
  PD_ASSIGN_OR_RETURN(const JobSchedule schedule, ScheduleOf(spec));
  PlanRequest request;
  request.profiles = std::move(profiles);
  request.topology = std::move(topology);
  request.schedule = spec.schedule;
  request.table = schedule.table;
  request.chunks = spec.chunks;
  request.microbatches = spec.microbatches;
  request.batch_size = spec.batch_size;
  request.stages = spec.stages;
  request.workers = spec.workers;
  request.max_replicas = spec.max_replicas;
  request.warmup = spec.warmup;
  request.global_norm = NeedsGlobalNorm(spec);
  // Computing again gives the same only while the weights stay.
  request.may_recompute = schedule.policy != WeightPolicy::kSingle;
  PD_RETURN_IF_ERROR(SetRecompute(spec, &request));
  return request;
}

absl::StatusOr<Plan> PlanOf(const JobSpec& spec, const PlanRequest& request) {
  if (!spec.plan.has_value()) return MakePlan(request);
  absl::StatusOr<Plan> plan = EvaluatePlan(request, *spec.plan);
  return plan.ok() ? plan : WithReason(plan.status(), "PLAN_REJECTED");
}

}  // namespace pipedream
