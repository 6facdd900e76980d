#include "common/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace pipedream {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kOff: return spdlog::level::off;
  }
  return spdlog::level::info;
}

// Set once by InitLog, before other threads log.
bool json_output = false;

spdlog::logger& Logger() {
  static std::shared_ptr<spdlog::logger> logger = spdlog::stderr_color_mt("pipedream");
  return *logger;
}

std::string JsonEscape(const std::string& text) {
  std::string out;
  out.reserve(text.size() + 8);
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20) {
      out += fmt::format("\\u{:04x}", c);
    } else {
      out += static_cast<char>(c);
    }
  }
  return out;
}

}  // namespace

void InitLog(const LogOptions& options) {
  json_output = options.json;
  Logger().set_level(ToSpdlog(options.level));
  Logger().flush_on(spdlog::level::info);
  if (options.json) {
    Logger().set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","program":")" +
                         JsonEscape(options.program) + R"(","message":"%v"})");
  } else {
    Logger().set_pattern("%H:%M:%S.%e %^%-7l%$ " + options.program + "  %v");
  }
}

bool ParseLogLevel(std::string_view text, LogLevel* level) {
  if (text == "debug") *level = LogLevel::kDebug;
  else if (text == "info") *level = LogLevel::kInfo;
  else if (text == "warning") *level = LogLevel::kWarning;
  else if (text == "error") *level = LogLevel::kError;
  else if (text == "off") *level = LogLevel::kOff;
  else return false;
  return true;
}

bool LogEnabled(LogLevel level) { return Logger().should_log(ToSpdlog(level)); }

void LogMessage(LogLevel level, const std::string& message) {
  Logger().log(ToSpdlog(level), "{}", json_output ? JsonEscape(message) : message);
}

}  // namespace pipedream
