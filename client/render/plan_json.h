// A plan for programs, with what follows from its fields.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "common/plan/plan.h"
#include "common/plan/profile.h"
#include "common/plan/topology.h"

namespace pipedream {

// What PlanJson adds to the message's fields: said again, or kept beside the plan.
inline constexpr std::array<std::string_view, 6> kDerivedPlanKeys = {
    "config",   "minibatches_per_s", "data_parallel_saving",
    "profiles", "topology",          "model_warnings"};
inline constexpr std::array<std::string_view, 7> kDerivedStageKeys = {
    "replicas",  "devices",     "memory_bytes",       "node_names",
    "staleness", "node_ranges", "learning_rate_scale"};

// What a plan was made from, kept beside it where it was measured for it.
struct PlanOrigin {
  std::vector<Profile> profiles;
  ClusterTopology topology;
  std::vector<std::string> model_warnings;
};

// {"apiVersion", "kind": "Plan", "config": "3-1", "bottleneck_s", ..., "stages": [{"nodes",
// "replicas", "devices", "compute_s", "memory_bytes", ...}], ...}. `profile` gives the nodes'
// names, `origin` is part of the document if it is not null.
std::string PlanJson(const Plan& plan, const Profile* profile, const PlanOrigin* origin);

// Profiles and topology as measured: {"kind": "Measurements", "profiles", "topology"}.
std::string MeasurementsJson(const PlanOrigin& origin);

}  // namespace pipedream
