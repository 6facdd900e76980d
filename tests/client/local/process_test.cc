#include "client/local/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

ExitStatus WaitFor(Process* process) {
  while (true) {
    if (auto status = process->Poll()) return *status;
    usleep(1000);
  }
}

absl::StatusOr<Process> Shell(const std::string& script, ProcessOptions options = {}) {
  options.argv = {"sh", "-c", script};
  return Process::Start(options);
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Process, ReportsExitCodes) {
  ASSERT_OK_AND_ASSIGN(Process process, Shell("exit 7"));
  ExitStatus status = WaitFor(&process);
  EXPECT_EQ(status.code, 7);
  EXPECT_EQ(status.ToString(), "exited with code 7");
  EXPECT_FALSE(process.running());
}

TEST(Process, ReportsSignals) {
  ASSERT_OK_AND_ASSIGN(Process process, Shell("kill -9 $$"));
  ExitStatus status = WaitFor(&process);
  EXPECT_EQ(status.code, 137);
  EXPECT_EQ(status.ToString(), "was ended by signal 9 (Killed)");
}

TEST(Process, MissingProgramsAreNamed) {
  ProcessOptions options;
  options.argv = {"/nonexistent/program"};
  EXPECT_THAT(Process::Start(options),
              StatusIs(absl::StatusCode::kNotFound, testing::HasSubstr("/nonexistent/program")));
}

TEST(Process, OutputGoesToTheLogAndVariablesArrive) {
  ProcessOptions options;
  options.log_path = testing::TempDir() + "/process-test.log";
  unlink(options.log_path.c_str());
  options.environment = {{"PIPEDREAM_SERVER", "127.0.0.1:1"}};
  ASSERT_OK_AND_ASSIGN(Process process, Shell("echo out $PIPEDREAM_SERVER; echo err >&2", options));
  EXPECT_EQ(WaitFor(&process).code, 0);
  EXPECT_EQ(Contents(options.log_path), "out 127.0.0.1:1\nerr\n");
}

TEST(Process, StartsWithNoSignalsBlocked) {
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, &old);
  auto process = Shell("exec sleep 100");
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  ASSERT_OK(process.status());
  process->Kill(SIGTERM);
  EXPECT_EQ(WaitFor(&*process).code, 128 + SIGTERM);
}

TEST(Process, TheDestructorLeavesNothing) {
  pid_t pid;
  {
    ProcessOptions options;
    options.own_group = true;
    ASSERT_OK_AND_ASSIGN(Process process, Shell("sleep 100 & wait", options));
    pid = process.pid();
    ASSERT_EQ(kill(pid, 0), 0);
  }
  EXPECT_NE(kill(pid, 0), 0);
}

}  // namespace
}  // namespace pipedream
