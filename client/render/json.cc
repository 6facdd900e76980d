#include "client/render/json.h"

#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "client/render/yaml.h"
#include "common/base/status.h"

namespace pipedream {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Json = nlohmann::ordered_json;

Json ToJson(const Message& message);

// JOB_STATE_RUNNING of enum JobState, STATE_IDLE of enum State -> "RUNNING", "IDLE".
std::string EnumWord(const google::protobuf::EnumValueDescriptor& value) {
  const std::string& zero = value.type()->value(0)->name();
  size_t prefix = zero.rfind("UNSPECIFIED");
  return prefix == std::string::npos ? value.name() : value.name().substr(prefix);
}

Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// The value of a singular field (index < 0) or of one element.
Json FieldJson(const Message& m, const FieldDescriptor* f, int i) {
  const auto* r = m.GetReflection();
  bool one = i < 0;
  switch (f->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return one ? r->GetInt32(m, f) : r->GetRepeatedInt32(m, f, i);
    case FieldDescriptor::CPPTYPE_INT64:
      return one ? r->GetInt64(m, f) : r->GetRepeatedInt64(m, f, i);
    case FieldDescriptor::CPPTYPE_UINT32:
      return one ? r->GetUInt32(m, f) : r->GetRepeatedUInt32(m, f, i);
    case FieldDescriptor::CPPTYPE_UINT64:
      return one ? r->GetUInt64(m, f) : r->GetRepeatedUInt64(m, f, i);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Number(one ? r->GetDouble(m, f) : r->GetRepeatedDouble(m, f, i));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Number(one ? r->GetFloat(m, f) : r->GetRepeatedFloat(m, f, i));
    case FieldDescriptor::CPPTYPE_BOOL:
      return one ? r->GetBool(m, f) : r->GetRepeatedBool(m, f, i);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumWord(*(one ? r->GetEnum(m, f) : r->GetRepeatedEnum(m, f, i)));
    case FieldDescriptor::CPPTYPE_STRING:
      return one ? r->GetString(m, f) : r->GetRepeatedString(m, f, i);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(one ? r->GetMessage(m, f) : r->GetRepeatedMessage(m, f, i));
  }
  return nullptr;
}

Json ToJson(const Message& message) {
  Json object = Json::object();
  const auto* descriptor = message.GetDescriptor();
  for (int k = 0; k < descriptor->field_count(); ++k) {
    const FieldDescriptor* field = descriptor->field(k);
    const std::string& name = field->name();
    if (field->is_repeated()) {
      Json list = Json::array();
      int size = message.GetReflection()->FieldSize(message, field);
      for (int i = 0; i < size; ++i) list.push_back(FieldJson(message, field, i));
      object[name] = std::move(list);
    } else if (field->has_presence()) {
      if (message.GetReflection()->HasField(message, field)) {
        object[name] = FieldJson(message, field, -1);
      }
    } else if (name.ends_with("_us")) {
      std::string time = FormatTime(message.GetReflection()->GetInt64(message, field));
      std::string key = name == "time_us" ? "time" : name.substr(0, name.size() - 2) + "time";
      object[key] = time.empty() ? Json(nullptr) : Json(time);
    } else {
      object[name] = FieldJson(message, field, -1);
    }
  }
  return object;
}

Json Whole(std::string_view kind, const Message& message) {
  Json object = JsonHead(kind);
  object.update(ToJson(message));
  return object;
}

Json WholeList(std::string_view kind, const std::vector<const Message*>& items) {
  Json object = JsonHead(kind);
  object["items"] = Json::array();
  for (const Message* item : items) object["items"].push_back(ToJson(*item));
  return object;
}

}  // namespace

Json JsonHead(std::string_view kind) {
  return {{"apiVersion", "pipedream/v1"}, {"kind", std::string(kind)}};
}

std::string DumpJson(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string MessageJson(std::string_view kind, const Message& message) {
  return DumpJson(Whole(kind, message), 2);
}
std::string MessageYaml(std::string_view kind, const Message& message) {
  return JsonToYaml(DumpJson(Whole(kind, message), -1));
}
std::string MessageJsonLine(std::string_view kind, const Message& message) {
  return DumpJson(Whole(kind, message), -1);
}
std::string ListJson(std::string_view kind, const std::vector<const Message*>& items) {
  return DumpJson(WholeList(kind, items), 2);
}
std::string ListYaml(std::string_view kind, const std::vector<const Message*>& items) {
  return JsonToYaml(DumpJson(WholeList(kind, items), -1));
}

std::string ErrorJson(const absl::Status& status, ExitCode exit_code) {
  Json object = JsonHead("Error");
  object["code"] = std::string(StatusCodeName(status.code()));
  object["reason"] = ReasonOf(status);
  object["message"] = std::string(status.message().data(), status.message().size());
  object["exit_code"] = static_cast<int>(exit_code);
  return DumpJson(object, -1);
}

std::string VersionJson(std::string_view client, std::string_view coordinator) {
  Json object = JsonHead("Version");
  object["client"] = std::string(client);
  object["coordinator"] = coordinator.empty() ? Json(nullptr) : Json(std::string(coordinator));
  return DumpJson(object, 2);
}

std::string FormatTime(int64_t unix_us) {
  if (unix_us <= 0) return "";
  std::time_t seconds = unix_us / 1'000'000;
  std::tm utc;
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  int64_t ms = unix_us / 1000 % 1000;
  return ms == 0 ? fmt::format("{}Z", text) : fmt::format("{}.{:03}Z", text, ms);
}

}  // namespace pipedream
