#include <fmt/core.h>

#include <ostream>

#include "client/commands/commands.h"
#include "client/exit_codes.h"
#include "client/render/json.h"
#include "client/render/table.h"

namespace pipedream {

void PrintExitCodes(std::ostream& out) {
  TextTable table({{"CODE", TextTable::Align::kRight}, {"MEANING"}, {"GRPC CODES"}});
  for (const ExitCodeRow& row : ExitCodeTable()) {
    table.Add({fmt::format("{}", static_cast<int>(row.code)), std::string(row.meaning),
               std::string(row.grpc_codes)});
  }
  out << table.ToString(true);
}

void PrintError(const Terminal& terminal, const absl::Status& status, int exit_code) {
  if (terminal.machine_readable()) {
    *terminal.err << ErrorJson(status, static_cast<ExitCode>(exit_code)) << std::flush;
    return;
  }
  std::string message(status.message().data(), status.message().size());
  *terminal.err << Paint(terminal, "error: ", kRed) << message << std::endl;
}

}  // namespace pipedream
