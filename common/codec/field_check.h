// Checks on fields of messages from outside; used by the codecs. Keeps the first fault.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace pipedream {

// More than any real job has; a message beyond it is refused before anything is allocated for it.
inline constexpr int kMaxListed = 1'000'000;
inline constexpr int64_t kMaxTextBytes = 4096;
// Counts stay exact in JSON and in products with small factors.
inline constexpr int64_t kMaxCount = int64_t{1} << 53;

// `FieldCheck check("JobSpec"); check.Count("epochs", m.epochs()); ... return check.status();`
// Errors are kInvalidArgument: message and field, value found, values allowed.
class FieldCheck {
 public:
  explicit FieldCheck(std::string_view message) : message_(message) {}
  // A field of one element of a list: "PlanStage[3]".
  FieldCheck(std::string_view message, int64_t index);

  FieldCheck& Count(std::string_view field, int64_t value, int64_t least = 0,
                    int64_t most = kMaxCount);
  FieldCheck& Int32(std::string_view field, int64_t value, int64_t least = 0) {
    return Count(field, value, least, std::numeric_limits<int32_t>::max());
  }
  FieldCheck& Finite(std::string_view field, double value);
  FieldCheck& NotNegative(std::string_view field, double value);  // and finite
  FieldCheck& Listed(std::string_view field, int size, int most = kMaxListed);
  FieldCheck& Text(std::string_view field, std::string_view value,
                   int64_t most_bytes = kMaxTextBytes);
  // Empty or 64 lower-case hexadecimal digits: it becomes a file name.
  FieldCheck& Hash(std::string_view field, std::string_view value);
  FieldCheck& Require(std::string_view field, bool condition, std::string_view expected);

  const absl::Status& status() const { return status_; }

 private:
  void Fail(std::string_view field, std::string_view found, std::string_view expected);
  std::string message_;
  absl::Status status_;
};

}  // namespace pipedream
