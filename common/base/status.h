// Errors are absl::Status, built with fmt. A status may carry a *reason*: an UPPER_SNAKE code that
// programs match on (service_conventions: ErrorInfo.reason), while the message is for people.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace pipedream {

template <typename... Args>
absl::Status MakeStatus(absl::StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return absl::Status(code, fmt::format(format, std::forward<Args>(args)...));
}

// A mistake in what the user gave: names what, where, found, expected, and what to do.
template <typename... Args>
absl::Status InvalidArgument(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, format, std::forward<Args>(args)...);
}
template <typename... Args>
absl::Status NotFound(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kNotFound, format, std::forward<Args>(args)...);
}
template <typename... Args>
absl::Status FailedPrecondition(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kFailedPrecondition, format, std::forward<Args>(args)...);
}
template <typename... Args>
absl::Status ResourceExhausted(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kResourceExhausted, format, std::forward<Args>(args)...);
}
// The only code that is retried: the peer may come back.
template <typename... Args>
absl::Status Unavailable(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kUnavailable, format, std::forward<Args>(args)...);
}
// The message belongs to an attempt that is over.
template <typename... Args>
absl::Status Aborted(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kAborted, format, std::forward<Args>(args)...);
}
template <typename... Args>
absl::Status DeadlineExceeded(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kDeadlineExceeded, format, std::forward<Args>(args)...);
}
template <typename... Args>
absl::Status Unimplemented(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kUnimplemented, format, std::forward<Args>(args)...);
}
// A bug of ours, or a broken invariant found at run time.
template <typename... Args>
absl::Status Internal(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kInternal, format, std::forward<Args>(args)...);
}

// `status` with "context: " before its message; code, reason and payloads stay. OK stays OK.
absl::Status Annotate(const absl::Status& status, std::string_view context);

// Attaches or reads the reason code ("NON_FINITE_LOSS"). ReasonOf is empty when there is none.
absl::Status WithReason(absl::Status status, std::string_view reason);
std::string ReasonOf(const absl::Status& status);

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace pipedream

// For bugs only, never for input: prints and aborts.
#define PIPEDREAM_CHECK(condition) \
  ((condition) ? (void)0 : ::pipedream::CheckFailed(__FILE__, __LINE__, #condition))

#define PD_STATUS_CONCAT_INNER(a, b) a##b
#define PD_STATUS_CONCAT(a, b) PD_STATUS_CONCAT_INNER(a, b)

#define PD_RETURN_IF_ERROR(expr)                          \
  do {                                                    \
    if (absl::Status pd_status = (expr); !pd_status.ok()) \
      return pd_status;                                   \
  } while (false)

// PD_ASSIGN_OR_RETURN(auto x, F()); moves the value out or returns the error.
#define PD_ASSIGN_OR_RETURN(lhs, expr) \
  PD_ASSIGN_OR_RETURN_IMPL(PD_STATUS_CONCAT(pd_or_, __LINE__), lhs, expr)
#define PD_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return tmp.status();            \
  lhs = *std::move(tmp)
