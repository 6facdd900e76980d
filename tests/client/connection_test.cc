#include "client/connection.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

std::string WriteConfig(const std::string& text) {
  std::string path = testing::TempDir() + "/pipedream-config.yaml";
  std::ofstream(path) << text;
  return path;
}

TEST(ChooseServer, FlagThenEnvironmentThenFileThenDefault) {
  ServerInputs inputs{"a:1", "b:2", WriteConfig("server: c:3\n")};
  ASSERT_OK_AND_ASSIGN(ServerChoice choice, ChooseServer(inputs));
  EXPECT_EQ(choice.address, "a:1");
  EXPECT_EQ(choice.source, "--server");
  inputs.flag = "";
  ASSERT_OK_AND_ASSIGN(choice, ChooseServer(inputs));
  EXPECT_EQ(choice.address, "b:2");
  EXPECT_EQ(choice.source, "PIPEDREAM_SERVER");
  inputs.environment = "";
  ASSERT_OK_AND_ASSIGN(choice, ChooseServer(inputs));
  EXPECT_EQ(choice.address, "c:3");
  EXPECT_EQ(choice.source, inputs.config_path);
  inputs.config_path = "/nonexistent/config.yaml";
  ASSERT_OK_AND_ASSIGN(choice, ChooseServer(inputs));
  EXPECT_EQ(choice.address, "127.0.0.1:7070");
}

TEST(ChooseServer, MistakesNameTheirSource) {
  EXPECT_THAT(ChooseServer({"host", "", ""}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--server: ")));
  EXPECT_THAT(ChooseServer({"", "host", ""}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("PIPEDREAM_SERVER: ")));
  EXPECT_THAT(ChooseServer({"", "", WriteConfig("\nsevrer: a:1\n")}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("yaml:2: unknown key")));
  EXPECT_THAT(ChooseServer({"", "", WriteConfig("server: [\n")}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not valid YAML")));
}

}  // namespace
}  // namespace pipedream
