// Reference data that lives beside the project, not in it. A clone elsewhere lacks it; tests that
// read it then skip.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace pipedream {

// The folder, from $PIPEDREAM_SHARED or beside the source tree; empty when there is none.
std::string SharedDataDir();

}  // namespace pipedream

#define PD_SKIP_WITHOUT_SHARED_DATA()                                                      \
  if (::pipedream::SharedDataDir().empty())                                                \
  GTEST_SKIP() << "reference data not found; set PIPEDREAM_SHARED to its folder to run this"
