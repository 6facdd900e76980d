// Messages as JSON or YAML, for programs: versioned (apiVersion, kind), enumerators as words
// without prefix, times as RFC 3339 UTC, bytes as integers, durations in seconds, non-finite
// numbers as null.
#pragma once

#include <google/protobuf/message.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "client/exit_codes.h"

namespace pipedream {

// {"apiVersion": "pipedream/v1", "kind": kind}: how every object begins.
nlohmann::ordered_json JsonHead(std::string_view kind);

// Ends with a newline; indent -1: on one line. Invalid UTF-8 (a path) becomes U+FFFD rather than an
// exception.
std::string DumpJson(const nlohmann::ordered_json& json, int indent = 2);

// {"apiVersion": "pipedream/v1", "kind": kind, ...fields}; ends with a newline. Fields named *_us
// become *_time (time_us: time). Scalars are always there, messages and optional scalars only
// if set.
std::string MessageJson(std::string_view kind, const google::protobuf::Message& message);
std::string MessageYaml(std::string_view kind, const google::protobuf::Message& message);

// On one line, for streams.
std::string MessageJsonLine(std::string_view kind, const google::protobuf::Message& message);

// {"apiVersion", "kind": kind, "items": [...]}.
std::string ListJson(std::string_view kind,
                     const std::vector<const google::protobuf::Message*>& items);
std::string ListYaml(std::string_view kind,
                     const std::vector<const google::protobuf::Message*>& items);

// One line: {"apiVersion", "kind": "Error", "code", "reason", "message", "exit_code"}.
std::string ErrorJson(const absl::Status& status, ExitCode exit_code);

// {"apiVersion", "kind": "Version", "client": ..., "coordinator": ...}; null where unknown.
std::string VersionJson(std::string_view client, std::string_view coordinator);

// 1700000000000000 -> "2023-11-14T22:13:20Z"; with milliseconds where there are any; "" for 0.
std::string FormatTime(int64_t unix_us);

}  // namespace pipedream
