// Repeated fields <-> vectors, element by element through ToProto and FromProto.
// All that declare those come first: the functions are found by scope, not by argument.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/codec/field_check.h"
#include "common/codec/job_codec.h"
#include "common/codec/plan_codec.h"
#include "common/codec/schedule_codec.h"

namespace pipedream {

template <typename Value, typename Message>
void AppendAll(const std::vector<Value>& values, google::protobuf::RepeatedPtrField<Message>* out) {
  out->Reserve(static_cast<int>(values.size()));
  for (const Value& value : values) *out->Add() = ToProto(value);
}

// Errors say which element.
template <typename Message, typename Value>
absl::Status ReadAll(const google::protobuf::RepeatedPtrField<Message>& messages,
                     std::string_view field, std::vector<Value>* out, int most = kMaxListed) {
  if (messages.size() > most) {
    return InvalidArgument("{}: found {} entries, expected at most {}", field, messages.size(),
                           most);
  }
  out->reserve(messages.size());
  for (int i = 0; i < messages.size(); ++i) {
    auto value = FromProto(messages[i]);
    if (!value.ok()) return Annotate(value.status(), fmt::format("{}[{}]", field, i));
    out->push_back(*std::move(value));
  }
  return absl::OkStatus();
}

}  // namespace pipedream
