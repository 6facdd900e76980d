#include "client/terminal.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "client/environment.h"

namespace pipedream {
namespace {

int TerminalWidth() {
  int width = std::atoi(Env("COLUMNS").c_str());
  winsize size;
  if (width <= 0 && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0) width = size.ws_col;
  return width > 0 ? width : 80;
}

}  // namespace

Terminal ProcessTerminal(ColorMode color) {
  Terminal terminal{&std::cout, &std::cerr};
  terminal.err_is_tty = isatty(STDERR_FILENO) == 1;
  terminal.width = TerminalWidth();
  bool plain = !Env("NO_COLOR").empty() || Env("TERM") == "dumb";
  terminal.color =
      color == ColorMode::kAlways || (color == ColorMode::kAuto && terminal.err_is_tty && !plain);
  if (Env("TERM") == "dumb") terminal.err_is_tty = false;  // cannot redraw a line
  return terminal;
}

std::string Paint(const Terminal& terminal, std::string_view text, std::string_view ansi) {
  if (!terminal.color) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", ansi, text);
}

}  // namespace pipedream
