#include "common/base/units.h"

#include <charconv>
#include <cmath>

#include "common/base/status.h"

namespace pipedream {
namespace {

// Splits "1.5GiB" into 1.5 and "GiB"; false without a non-negative finite number in front.
bool SplitNumber(std::string_view text, double* number, std::string_view* unit) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  if (error != std::errc() || !std::isfinite(*number) || *number < 0) return false;
  *unit = text.substr(end - text.data());
  return true;
}

}  // namespace

std::string FormatBytes(int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* u : {"KiB", "MiB", "GiB", "TiB"}) {
    value /= 1024;
    unit = u;
    if (value < 1024) break;
  }
  return value < 10 ? fmt::format("{:.2f} {}", value, unit) : fmt::format("{:.1f} {}", value, unit);
}

std::string FormatSeconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  int64_t whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

absl::StatusOr<int64_t> ParseBytes(std::string_view text) {
  double number = 0;
  std::string_view unit;
  if (SplitNumber(text, &number, &unit)) {
    double scale = 0;
    if (unit.empty() || unit == "B") scale = 1;
    else if (unit == "K" || unit == "KiB") scale = 1024.0;
    else if (unit == "M" || unit == "MiB") scale = 1024.0 * 1024;
    else if (unit == "G" || unit == "GiB") scale = 1024.0 * 1024 * 1024;
    else if (unit == "T" || unit == "TiB") scale = 1024.0 * 1024 * 1024 * 1024;
    double bytes = number * scale;
    if (scale > 0 && bytes < 9e18) return static_cast<int64_t>(bytes);
  }
  return InvalidArgument("'{}' is not a size; write for example 512M or 1.5GiB", text);
}

absl::StatusOr<double> ParseSeconds(std::string_view text) {
  double number = 0;
  std::string_view unit;
  if (SplitNumber(text, &number, &unit)) {
    if (unit.empty() || unit == "s") return number;
    if (unit == "ms") return number / 1000;
    if (unit == "us") return number / 1e6;
    if (unit == "m") return number * 60;
    if (unit == "h") return number * 3600;
  }
  return InvalidArgument("'{}' is not a duration; write for example 90, 250ms, 2m or 1h", text);
}

absl::StatusOr<double> ParseBitRate(std::string_view text) {
  double number = 0;
  std::string_view unit;
  if (SplitNumber(text, &number, &unit)) {
    for (const std::string_view tail : {"bit/s", "bps"})
      if (unit.ends_with(tail)) unit.remove_suffix(tail.size());
    double scale = 0;
    if (unit.empty()) scale = 1;
    else if (unit == "K") scale = 1e3;
    else if (unit == "M") scale = 1e6;
    else if (unit == "G") scale = 1e9;
    else if (unit == "T") scale = 1e12;
    if (scale > 0) return number * scale / 8;
  }
  return InvalidArgument("'{}' is not a bit rate; write for example 25G or 100Mbit/s", text);
}

}  // namespace pipedream
