// Where the command writes: data to `out`, everything else (progress, hints, errors) to `err`.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

namespace pipedream {

enum class OutputFormat { kTable, kWide, kMarkdown, kJson, kYaml, kName };
enum class ProgressMode { kAuto, kPlain, kNone };
enum class ColorMode { kAuto, kAlways, kNever };

struct Terminal {
  std::ostream* out;
  std::ostream* err;
  bool err_is_tty = false;
  int width = 80;      // columns of the terminal; COLUMNS first
  bool color = false;  // of err
  OutputFormat format = OutputFormat::kTable;
  ProgressMode progress = ProgressMode::kAuto;
  bool headers = true;

  bool machine_readable() const {
    return format == OutputFormat::kJson || format == OutputFormat::kYaml;
  }
};

// stdout and stderr of this process; environment: NO_COLOR, TERM, COLUMNS.
Terminal ProcessTerminal(ColorMode color);

// "error" in red where colours are on.
std::string Paint(const Terminal& terminal, std::string_view text, std::string_view ansi);
inline constexpr std::string_view kRed = "31";
inline constexpr std::string_view kGreen = "32";
inline constexpr std::string_view kYellow = "33";

}  // namespace pipedream
