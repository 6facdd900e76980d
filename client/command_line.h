// The `pipedream` command line: what can be said, and which function it calls.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "client/commands/commands.h"

namespace pipedream {

// Parses `arguments` (without the program's name), runs the command and returns the exit code.
// Errors are printed to the context's terminal. `--server` and the output flags complete the
// context that is given.
int RunCommandLine(const std::vector<std::string>& arguments, CommandContext context);

}  // namespace pipedream
