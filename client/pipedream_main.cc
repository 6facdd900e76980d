#include <csignal>
#include <iostream>

#include "client/command_line.h"

int main(int argc, char** argv) {
  using namespace pipedream;
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe shows as a failed write
  CommandContext context;
  context.terminal = ProcessTerminal(ColorMode::kAuto);
  context.server = ProcessServerInputs("");
  context.input = &std::cin;
  context.clock = SystemClock();
  return RunCommandLine({argv + 1, argv + argc}, std::move(context));
}
