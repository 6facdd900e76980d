#include <csignal>
#include <optional>

#include "client/commands/calls.h"
#include "client/commands/measure.h"
#include "client/documents.h"
#include "client/exit_codes.h"
#include "client/render/plan_json.h"
#include "client/render/yaml.h"
#include "common/base/status.h"
#include "common/codec/plan_codec.h"
#include "common/plan/plan_table.h"
#include "common/plan/profile_table.h"
#include "common/plan/topology_file.h"
#include "common/plan/what_if.h"
#include "common/planner/job_request.h"

namespace pipedream {
namespace {

// A plan with what it was made from.
struct Planned {
  Plan plan;
  PlanOrigin origin;
  bool measured = false;  // the origin, for this plan
};

// A single profile serves devices that stand for any, and a published one any device.
void MatchKinds(const std::vector<Profile>& profiles, ClusterTopology* topology) {
  if (profiles.size() != 1) return;
  for (DeviceInfo& device : topology->devices) {
    if (device.kind == kAnyDeviceKind || profiles[0].device_kind == kAnyDeviceKind)
      device.kind = profiles[0].device_kind;
  }
}

// Here, of what was measured or read.
absl::Status PlanHere(const CommandContext& context, const PlanOptions& options,
                      const JobSpec& spec, int64_t batch_size, Planned* planned) {
  ClusterTopology& topology = planned->origin.topology;
  if (!options.what_if.empty()) {
    PD_ASSIGN_OR_RETURN(topology, ApplyWhatIf(options.what_if, std::move(topology)));
  }
  for (DeviceInfo& device : topology.devices) {
    if (options.memory_limit <= 0) continue;
    if (device.memory_bytes == 0 || device.memory_bytes > options.memory_limit)
      device.memory_bytes = options.memory_limit;
  }
  MatchKinds(planned->origin.profiles, &topology);
  PD_ASSIGN_OR_RETURN(PlanRequest request, PlanRequestOf(spec, planned->origin.profiles, topology));
  request.rule = options.rule;
  request.batch_size = batch_size;
  request.use_all_workers = !options.workers_may_idle;
  const Duration begin = context.clock->Now();
  PD_ASSIGN_OR_RETURN(planned->plan, PlanOf(spec, request));
  planned->plan.planning_s = ToSeconds(context.clock->Now() - begin);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Profile>> ProfilesOf(const std::vector<std::string>& files) {
  std::vector<Profile> profiles;
  for (const std::string& file : files) {
    PD_ASSIGN_OR_RETURN(std::vector<Profile> more, ReadProfiles(file));
    for (Profile& profile : more) profiles.push_back(std::move(profile));
  }
  return profiles;
}

// Profile and cluster are files: nobody is asked.
absl::StatusOr<Planned> PlanOffline(const CommandContext& context, const PlanOptions& options) {
  Planned planned;
  PD_ASSIGN_OR_RETURN(const JobSpec spec, BuildLayoutSpec(options.job, *context.input));
  PD_ASSIGN_OR_RETURN(planned.origin.profiles, ProfilesOf(options.profiles));
  PD_ASSIGN_OR_RETURN(planned.origin.topology, ReadTopology(options.topology));
  // The profile says how many samples a microbatch has.
  PD_RETURN_IF_ERROR(PlanHere(context, options, spec, 0, &planned));
  return planned;
}

// Whether the coordinator's own plan is what was asked for.
bool AsItWouldRun(const PlanOptions& options) {
  return options.rule == "measured" && options.what_if.empty() && options.topology.empty() &&
         options.profiles.empty() && options.memory_limit == 0 && options.workers_may_idle;
}

// nullopt: interrupted, with the exit code in `code`.
absl::StatusOr<std::optional<Planned>> PlanOnline(const CommandContext& context,
                                                  const PlanOptions& options, int* code) {
  const bool here = !AsItWouldRun(options);
  PD_ASSIGN_OR_RETURN(const MeasureResult measured,
                      AskForPlan(context, options.job, options.timeout_s, here));
  if (measured.exit_code != kExitOk) {
    *code = measured.exit_code;
    return std::nullopt;
  }
  Planned planned;
  planned.measured = true;
  planned.plan = measured.plan;
  planned.origin = measured.origin;
  if (!here) return planned;
  if (!options.topology.empty()) {
    PD_ASSIGN_OR_RETURN(planned.origin.topology, ReadTopology(options.topology));
  }
  if (!options.profiles.empty()) {
    PD_ASSIGN_OR_RETURN(planned.origin.profiles, ProfilesOf(options.profiles));
  }
  PD_RETURN_IF_ERROR(PlanHere(context, options, measured.spec, measured.spec.batch_size, &planned));
  return planned;
}

absl::Status Print(const CommandContext& context, const PlanOptions& options,
                   const Planned& planned) {
  const Terminal& terminal = context.terminal;
  const Profile* profile = planned.origin.profiles.empty() ? nullptr : &planned.origin.profiles[0];
  // Names need the plan's own nodes.
  if (profile != nullptr && profile->nodes.size() != planned.plan.stage_of().size())
    profile = nullptr;
  const std::string json =
      PlanJson(planned.plan, profile, planned.measured ? &planned.origin : nullptr);
  if (!options.save.empty()) PD_RETURN_IF_ERROR(SaveDocument(options.save, json));
  if (terminal.format == OutputFormat::kJson) {
    *terminal.out << json;
  } else if (terminal.format == OutputFormat::kYaml) {
    *terminal.out << JsonToYaml(json);
  } else if (terminal.format == OutputFormat::kName) {
    *terminal.out << planned.plan.config() << "\n";
  } else {
    *terminal.out << FormatPlanTable(planned.plan);
    if (options.explain && profile != nullptr)
      *terminal.out << "\n" << FormatStageNodes(planned.plan, *profile);
  }
  if (!options.save.empty() && terminal.progress != ProgressMode::kNone)
    *terminal.err << "saved " << options.save << "\n";
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> PlanCommand(const CommandContext& context, const PlanOptions& options) {
  int code = kExitOk;
  std::optional<Planned> planned;
  if (!options.profiles.empty() && !options.topology.empty()) {
    PD_ASSIGN_OR_RETURN(planned, PlanOffline(context, options));
  } else {
    PD_ASSIGN_OR_RETURN(planned, PlanOnline(context, options, &code));
  }
  if (!planned.has_value()) return code;
  PD_RETURN_IF_ERROR(Print(context, options, *planned));
  return kExitOk;
}

}  // namespace pipedream
