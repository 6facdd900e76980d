// The table of bad input: what was said, what the command answered, with which exit code. Tests try
// every row and compare it with docs/bad-input.md, which is made from their output:
//   PIPEDREAM_WRITE_DOCS=1 integration_test --gtest_filter='BadInput*'
#pragma once

#include <string>
#include <vector>

#include "tests/integration/cluster.h"

namespace pipedream {

struct BadInput {
  std::string title;
  std::vector<std::string> command;  // arguments of `pipedream`
  int code = 0;
  std::vector<std::string> says;                      // parts of what is printed
  std::vector<std::vector<std::string>> before = {};  // commands that must succeed first
};

// Runs the row in `folder`, against the coordinator at `server`, and checks exit code, message and
// documentation.
void TryBadInput(const BadInput& row, const std::string& folder, const std::string& server);

}  // namespace pipedream
