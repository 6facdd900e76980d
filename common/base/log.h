// Logging for daemons and tools. The only place that knows spdlog is log.cc.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace pipedream {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

struct LogOptions {
  std::string program;                // shown in every line
  LogLevel level = LogLevel::kInfo;
  bool json = false;                  // one JSON object a line instead of text
};

// Goes to stderr. Call once, early in main; the default is text at level info.
void InitLog(const LogOptions& options);
// "debug", "info", "warning", "error", "off"; anything else gives false.
bool ParseLogLevel(std::string_view text, LogLevel* level);
bool LogEnabled(LogLevel level);
// Thread-safe. Never in the step loop.
void LogMessage(LogLevel level, const std::string& message);

template <typename... Args>
void Log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(level)) LogMessage(level, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogDebug(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kDebug, format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogInfo(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kInfo, format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogWarning(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kWarning, format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogError(fmt::format_string<Args...> format, Args&&... args) {
  Log(LogLevel::kError, format, std::forward<Args>(args)...);
}

}  // namespace pipedream
