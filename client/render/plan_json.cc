#include "client/render/plan_json.h"

#include <nlohmann/json.hpp>

#include "client/render/json.h"
#include "common/codec/plan_codec.h"

namespace pipedream {
namespace {

using Json = nlohmann::ordered_json;

// The fields of a message, without its head.
Json Fields(const google::protobuf::Message& message) {
  Json json = Json::parse(MessageJson("", message));
  json.erase("apiVersion");
  json.erase("kind");
  return json;
}

Json StageJson(const PlanStage& stage, double scale, const Profile* profile) {
  Json json = {{"node_ranges", stage.node_ranges()}, {"replicas", stage.replicas()},
               {"devices", stage.workers},           {"memory_bytes", stage.memory.total()},
               {"staleness", stage.staleness()},     {"learning_rate_scale", scale}};
  if (profile != nullptr) {
    json["node_names"] = Json::array();
    for (const int node : stage.nodes)
      if (node < std::ssize(profile->nodes))
        json["node_names"].push_back(profile->nodes[node].name);
  }
  json.update(Fields(ToProto(stage)));
  return json;
}

void AddOrigin(const PlanOrigin& origin, Json* json) {
  (*json)["model_warnings"] = origin.model_warnings;
  (*json)["topology"] = Fields(ToProto(origin.topology));
  (*json)["profiles"] = Json::array();
  for (const Profile& profile : origin.profiles)
    (*json)["profiles"].push_back(Fields(ToProto(profile)));
}

std::string Dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string PlanJson(const Plan& plan, const Profile* profile, const PlanOrigin* origin) {
  Json json = {{"apiVersion", "pipedream/v1"}, {"kind", "Plan"}, {"config", plan.config()}};
  json.update(Fields(ToProto(plan)));
  json["minibatches_per_s"] = plan.step_s > 0 ? 1 / plan.step_s : 0.0;
  json["data_parallel_saving"] = plan.data_parallel_bytes > 0
                                     ? 1 - static_cast<double>(plan.moved_bytes) /
                                               static_cast<double>(plan.data_parallel_bytes)
                                     : 0.0;
  const std::vector<double> scales = plan.learning_rate_scales();
  for (size_t s = 0; s < plan.stages.size(); ++s)
    json["stages"][s] = StageJson(plan.stages[s], scales[s], profile);
  if (origin != nullptr) AddOrigin(*origin, &json);
  return Dump(json);
}

std::string MeasurementsJson(const PlanOrigin& origin) {
  Json json = {{"apiVersion", "pipedream/v1"}, {"kind", "Measurements"}};
  AddOrigin(origin, &json);
  return Dump(json);
}

}  // namespace pipedream
