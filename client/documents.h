// Profiles, topologies and plans as files: what `-o json`, `-o yaml` and --save write, as JSON or
// YAML, read back with the checks that messages from outside get.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/plan/plan.h"
#include "common/plan/profile.h"
#include "common/plan/topology.h"

namespace pipedream {

// All errors are kInvalidArgument and name the file, and where there is one the line or the field:
// not JSON or YAML, another kind or version, a field that is not known, a value that is refused.

// A saved profile, several of them, those in a saved plan, or a published `*.graph.txt`, which is
// recognised by its content.
absl::StatusOr<std::vector<Profile>> ParseProfiles(std::string_view text, std::string_view file);
// A saved topology, that of a saved plan, or a cluster file (topology_file.h).
absl::StatusOr<ClusterTopology> ParseTopologyDocument(std::string_view text, std::string_view file);
// A saved plan. What is only printed (config, replicas, devices, memory_bytes ...) may be left out;
// `replicas` and `devices` that contradict `workers` are refused.
absl::StatusOr<Plan> ParsePlan(std::string_view text, std::string_view file);

absl::StatusOr<std::vector<Profile>> ReadProfiles(const std::string& path);
absl::StatusOr<ClusterTopology> ReadTopology(const std::string& path);
absl::StatusOr<Plan> ReadPlan(const std::string& path);

// Writes `json` as it is, or as YAML if the path ends so.
absl::Status SaveDocument(const std::string& path, const std::string& json);

}  // namespace pipedream
