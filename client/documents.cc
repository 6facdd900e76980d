#include "client/documents.h"

#include <google/protobuf/util/json_util.h>
#include <yaml-cpp/yaml.h>

#include <nlohmann/json.hpp>

#include "client/render/plan_json.h"
#include "client/render/yaml.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/codec/plan_codec.h"
#include "common/plan/published_profile.h"
#include "common/plan/topology_file.h"

namespace pipedream {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxDocumentBytes = int64_t{256} << 20;
constexpr int kMaxDepth = 64;

std::string StatusText(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

// Plain scalars are what JSON would take them for; quoted ones are text.
absl::StatusOr<Json> FromYaml(const YAML::Node& node, int depth) {
  if (depth > kMaxDepth) return InvalidArgument("lists and maps are nested too deep");
  if (node.IsMap()) {
    Json object = Json::object();
    for (const auto& entry : node) {
      const std::string key = entry.first.as<std::string>();
      if (object.contains(key))
        return InvalidArgument("line {}: {} is given twice", entry.first.Mark().line + 1, key);
      PD_ASSIGN_OR_RETURN(object[key], FromYaml(entry.second, depth + 1));
    }
    return object;
  }
  if (node.IsSequence()) {
    Json list = Json::array();
    for (const YAML::Node& item : node) {
      PD_ASSIGN_OR_RETURN(Json value, FromYaml(item, depth + 1));
      list.push_back(std::move(value));
    }
    return list;
  }
  if (node.IsNull()) return Json(nullptr);
  bool truth = false;
  int64_t whole = 0;
  double number = 0;
  if (node.Tag() == "!") return Json(node.Scalar());
  if (YAML::convert<int64_t>::decode(node, whole)) return Json(whole);
  if (YAML::convert<double>::decode(node, number)) return Json(number);
  if (YAML::convert<bool>::decode(node, truth)) return Json(truth);
  return Json(node.Scalar());
}

absl::StatusOr<Json> ParseJson(std::string_view text, std::string_view file) {
  bool deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    deep |= depth > kMaxDepth;
    return !deep;
  };
  try {
    Json json = Json::parse(text, watch);
    if (deep) return InvalidArgument("{}: lists and maps are nested too deep", file);
    return json;
  } catch (const Json::exception& e) {
    return InvalidArgument("{}: not valid JSON: {}", file, e.what());
  }
}

absl::StatusOr<Json> ParseYaml(std::string_view text, std::string_view file) {
  try {
    absl::StatusOr<Json> json = FromYaml(YAML::Load(std::string(text)), 0);
    return json.ok() ? json : InvalidArgument("{}: {}", file, StatusText(json.status()));
  } catch (const YAML::Exception& e) {
    return InvalidArgument("{}:{}: not valid YAML: {}", file, e.mark.line + 1, e.msg);
  }
}

// JSON is tried first where it may be that: large files are read much faster so.
absl::StatusOr<Json> ParseMap(std::string_view text, std::string_view file) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool braces = first != std::string_view::npos && text[first] == '{';
  absl::StatusOr<Json> json = braces ? ParseJson(text, file) : ParseYaml(text, file);
  if (braces && !json.ok()) {
    absl::StatusOr<Json> yaml = ParseYaml(text, file);
    if (yaml.ok()) json = std::move(yaml);
  }
  PD_RETURN_IF_ERROR(json.status());
  if (!json->is_object()) return InvalidArgument("{}: expected a map of keys and values", file);
  return json;
}

// The document's kind; its head is taken off.
absl::StatusOr<std::string> TakeHead(std::string_view file, std::string_view expected, Json* json) {
  const auto text = [&](const char* key) {
    const auto found = json->find(key);
    return found != json->end() && found->is_string() ? found->get<std::string>() : "";
  };
  const std::string version = text("apiVersion"), kind = text("kind");
  if (version != "pipedream/v1") {
    return InvalidArgument(
        "{}: apiVersion: found '{}', expected pipedream/v1: a {} as the pipedream command writes "
        "it",
        file, version, expected);
  }
  json->erase("apiVersion");
  json->erase("kind");
  return kind;
}

absl::Status WrongKind(std::string_view file, std::string_view kind, std::string_view expected) {
  return InvalidArgument("{}: kind: found '{}', expected {}", file, kind, expected);
}

template <typename M>
auto FromJson(std::string_view file, std::string_view what, const Json& json)
    -> decltype(FromProto(M())) {
  M message;
  const auto status = google::protobuf::util::JsonStringToMessage(
      json.dump(-1, ' ', false, Json::error_handler_t::replace), &message);
  if (!status.ok()) {
    const std::string text(status.message().data(), status.message().size());
    return InvalidArgument("{}: {}: {}", file, what, text);
  }
  auto value = FromProto(message);
  if (!value.ok()) return InvalidArgument("{}: {}", file, StatusText(value.status()));
  return value;
}

bool IsPublished(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return false;
  const std::string_view line = text.substr(first, text.find('\n', first) - first);
  return line.starts_with("node") && line.find(" -- ") != std::string_view::npos;
}

absl::StatusOr<std::vector<Profile>> ProfileList(std::string_view file, const Json& items) {
  std::vector<Profile> profiles;
  if (!items.is_array() || items.empty())
    return InvalidArgument("{}: holds no profile; `pipedream profile --save` writes one", file);
  for (const Json& item : items) {
    PD_ASSIGN_OR_RETURN(Profile profile, FromJson<v1::Profile>(file, "Profile", item));
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

absl::StatusOr<std::string> Contents(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kMaxDocumentBytes);
  if (!text.ok()) return InvalidArgument("{}", StatusText(text.status()));
  return text;
}

// `replicas` and `devices` say again what `workers` says: both or one may be left out.
absl::Status CheckRepeated(std::string_view file, size_t s, const Json& stage) {
  const auto workers = stage.find("workers"), replicas = stage.find("replicas");
  const auto devices = stage.find("devices");
  if (workers == stage.end() || !workers->is_array()) return absl::OkStatus();
  if (replicas != stage.end() && *replicas != workers->size()) {
    return InvalidArgument(
        "{}: stages[{}].replicas: found {}, but workers names {}; edit workers, and leave replicas "
        "out or make it agree",
        file, s, replicas->dump(), workers->size());
  }
  if (devices != stage.end() && *devices != *workers) {
    return InvalidArgument(
        "{}: stages[{}].devices: found {}, but workers are {}; edit workers, and leave devices out "
        "or make it agree",
        file, s, devices->dump(), workers->dump());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Profile>> ParseProfiles(std::string_view text, std::string_view file) {
  if (IsPublished(text)) {
    PD_ASSIGN_OR_RETURN(Profile profile, ParsePublishedProfile(text, file));
    return std::vector<Profile>{std::move(profile)};
  }
  PD_ASSIGN_OR_RETURN(Json json, ParseMap(text, file));
  PD_ASSIGN_OR_RETURN(const std::string kind, TakeHead(file, "profile", &json));
  if (kind == "Profile") return ProfileList(file, Json::array({json}));
  if (kind == "ProfileList") return ProfileList(file, json.value("items", Json()));
  if (kind == "Plan" || kind == "Measurements")
    return ProfileList(file, json.value("profiles", Json()));
  return WrongKind(file, kind, "Profile, ProfileList, or Plan with profiles");
}

absl::StatusOr<ClusterTopology> ParseTopologyDocument(std::string_view text,
                                                      std::string_view file) {
  // A document names its version; in a cluster file that is no key.
  if (text.find("apiVersion") == std::string_view::npos) return ParseTopology(text, file);
  PD_ASSIGN_OR_RETURN(Json json, ParseMap(text, file));
  PD_ASSIGN_OR_RETURN(const std::string kind, TakeHead(file, "topology", &json));
  if (kind == "Plan" || kind == "Measurements") {
    const auto found = json.find("topology");
    if (found == json.end())
      return InvalidArgument("{}: this plan was saved without its topology", file);
    return FromJson<v1::ClusterTopology>(file, "topology", *found);
  }
  if (kind != "Topology") return WrongKind(file, kind, "Topology, or Plan with a topology");
  return FromJson<v1::ClusterTopology>(file, "Topology", json);
}

absl::StatusOr<Plan> ParsePlan(std::string_view text, std::string_view file) {
  PD_ASSIGN_OR_RETURN(Json json, ParseMap(text, file));
  PD_ASSIGN_OR_RETURN(const std::string kind, TakeHead(file, "plan", &json));
  if (kind != "Plan") return WrongKind(file, kind, "Plan");
  const auto stages = json.find("stages");
  if (stages == json.end() || !stages->is_array() || stages->empty())
    return InvalidArgument("{}: stages: expected at least one", file);
  for (size_t s = 0; s < stages->size(); ++s) {
    Json& stage = (*stages)[s];
    if (!stage.is_object()) return InvalidArgument("{}: stages[{}]: expected a map", file, s);
    PD_RETURN_IF_ERROR(CheckRepeated(file, s, stage));
    for (const std::string_view key : kDerivedStageKeys) stage.erase(std::string(key));
  }
  for (const std::string_view key : kDerivedPlanKeys) json.erase(std::string(key));
  return FromJson<v1::Plan>(file, "Plan", json);
}

absl::StatusOr<std::vector<Profile>> ReadProfiles(const std::string& path) {
  PD_ASSIGN_OR_RETURN(const std::string text, Contents(path));
  return ParseProfiles(text, path);
}
absl::StatusOr<ClusterTopology> ReadTopology(const std::string& path) {
  PD_ASSIGN_OR_RETURN(const std::string text, Contents(path));
  return ParseTopologyDocument(text, path);
}
absl::StatusOr<Plan> ReadPlan(const std::string& path) {
  PD_ASSIGN_OR_RETURN(const std::string text, Contents(path));
  return ParsePlan(text, path);
}

absl::Status SaveDocument(const std::string& path, const std::string& json) {
  const bool yaml = path.ends_with(".yaml") || path.ends_with(".yml");
  return WriteFileAtomic(path, yaml ? JsonToYaml(json) : json);
}

}  // namespace pipedream
