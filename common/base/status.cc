#include "common/base/status.h"

#include <absl/strings/cord.h>

#include <cstdio>
#include <cstdlib>

namespace pipedream {
namespace {
constexpr char kReasonUrl[] = "pipedream/reason";
}

absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  absl::Status result(status.code(),
                      std::string(context) + ": " + std::string(status.message().data(),
                                                                status.message().size()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    result.SetPayload(url, payload);
  });
  return result;
}

absl::Status WithReason(absl::Status status, std::string_view reason) {
  if (!status.ok()) status.SetPayload(kReasonUrl, absl::Cord(std::string(reason)));
  return status;
}

std::string ReasonOf(const absl::Status& status) {
  auto payload = status.GetPayload(kReasonUrl);
  return payload.has_value() ? std::string(*payload) : std::string();
}

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace pipedream
