#include "tests/failure/failure_fixture.h"

namespace pipedream {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Codes of docs/cli.md.
constexpr int kNotFoundCode = 4;
constexpr int kConflictCode = 8;
constexpr int kCancelledCode = 103;
constexpr int kInterruptedCode = 130;

class ClientTest : public FailureTest {
 protected:
  absl::StatusOr<Process> StartClient(std::vector<std::string> words, const std::string& log,
                                      bool with_server = true) {
    ProcessOptions options;
    options.argv = {std::string(PIPEDREAM_BIN_DIR) + "/pipedream"};
    options.argv.insert(options.argv.end(), words.begin(), words.end());
    if (with_server) options.environment = {{"PIPEDREAM_SERVER", cluster_.address()}};
    options.log_path = log;
    options.own_group = true;
    return Process::Start(options);
  }
};

TEST_F(ClientTest, CtrlCWhileFollowingLeavesTheJobAlone) {
  StartCluster(2);
  std::vector<std::string> words = {"submit", "--follow", "--progress", "plain"};
  const std::vector<std::string> job = JobWords(2, 3000);
  words.insert(words.end(), job.begin(), job.end());
  ASSERT_OK_AND_ASSIGN(Process client, StartClient(words, LogPath("client")));
  std::string id;
  ASSERT_GE(WaitUntil(kPatience,
                      [&] {
                        const std::string log = Log("client");
                        const size_t at = log.find("job-");
                        if (at == std::string::npos) return false;
                        id = log.substr(at, log.find_first_of(" \n:,;", at) - at);
                        return true;
                      }),
            0);
  ASSERT_TRUE(WaitForProgress(id));
  client.Kill(SIGINT);
  ExitStatus status;
  ASSERT_TRUE(WaitForEnd(&client, kSoon, &status));
  EXPECT_EQ(status.code, kInterruptedCode);
  EXPECT_THAT(Log("client"), HasSubstr("goes on"));
  EXPECT_THAT(Log("client"), HasSubstr("pipedream cancel " + id));
  EXPECT_TRUE(WaitForProgress(id)) << "it does not go on";
}

TEST_F(ClientTest, CancelFreesTheWorkersWhateverTheJobWasAt) {
  StartCluster(2);
  const std::string running = SubmitLong(2);
  const std::string queued = SubmitLong(2);
  const std::string behind = Submit(2, 1);
  ASSERT_TRUE(WaitForProgress(running));
  EXPECT_EQ(Get(queued).state(), v1::JOB_STATE_QUEUED);

  EXPECT_EQ(cluster_.Run({"cancel", queued}).code, 0);
  EXPECT_EQ(Get(queued).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(Get(running).state(), v1::JOB_STATE_RUNNING);

  EXPECT_EQ(cluster_.Run({"cancel", running}).code, 0);
  EXPECT_EQ(Get(running).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(cluster_.Run({"get", "job", running, "--exit-status"}).code, kCancelledCode);
  EXPECT_EQ(cluster_.Run({"logs", "-f", running}).code, kCancelledCode);

  EXPECT_TRUE(WaitForState(behind, v1::JOB_STATE_SUCCEEDED)) << "the workers are not free";
  ExpectIdle({0, 1});
  EXPECT_EQ(cluster_.Run({"cancel", running}).code, 0) << "cancelling twice";
  EXPECT_EQ(cluster_.Run({"cancel", behind}).code, kConflictCode) << "it is over";
  EXPECT_EQ(cluster_.Run({"cancel", "job-999"}).code, kNotFoundCode);
}

TEST_F(ClientTest, TheNextJobDoesNotSufferFromOneCancelledEarly) {
  StartCluster(2);
  for (v1::JobState state : {v1::JOB_STATE_PROFILING, v1::JOB_STATE_PLACING}) {
    SCOPED_TRACE(v1::JobState_Name(state));
    if (state == v1::JOB_STATE_PLACING) cluster_.worker(1).Kill(SIGSTOP);  // stays there
    const std::string id = SubmitLong(2);
    const std::string next = Submit(2, 1);
    const bool reached = WaitForState(id, state);
    EXPECT_EQ(cluster_.Run({"cancel", id}).code, 0);
    cluster_.worker(1).Kill(SIGCONT);
    ASSERT_TRUE(reached);
    EXPECT_EQ(Get(id).state(), v1::JOB_STATE_CANCELLED);
    EXPECT_TRUE(WaitForState(next, v1::JOB_STATE_SUCCEEDED));
  }
}

class LocalTest : public ClientTest {
 protected:
  // `pipedream local` with two workers, ready.
  void StartLocal(const std::vector<std::string>& command) {
    std::vector<std::string> words = {"local", "--workers",   "2",        "--port",
                                      "0",     "--state-dir", state_dir()};
    words.insert(words.end(), command.begin(), command.end());
    ASSERT_OK_AND_ASSIGN(local_, StartClient(words, folder_.path() + "/local.log", false));
    const double ready = WaitUntil(kPatience, [&] {
      return ReadFile(folder_.path() + "/local.log", 1 << 20).value_or("").find("coordinator at") !=
             std::string::npos;
    });
    ASSERT_GE(ready, 0) << ReadFile(folder_.path() + "/local.log", 1 << 20).value_or("");
  }
  std::string state_dir() const { return folder_.path() + "/state"; }
  void ExpectNothingLeft() {
    EXPECT_GE(WaitUntil(kSoon, [&] { return ProcessesWith(state_dir()).empty(); }), 0)
        << "processes are left";
  }

  TestFolder folder_;
  Process local_;
};

TEST_F(LocalTest, SigkillTakesTheDaemonsAlong) {
  StartLocal({});
  ASSERT_THAT(ProcessesWith(state_dir()), SizeIs(4));
  kill(local_.pid(), SIGKILL);
  ExpectNothingLeft();
}

TEST_F(LocalTest, CtrlCEndsEverything) {
  StartLocal({});
  kill(local_.pid(), SIGINT);
  ExitStatus status;
  ASSERT_TRUE(WaitForEnd(&local_, kFailureFloor, &status));
  EXPECT_EQ(status.code, 0);
  ExpectNothingLeft();
}

TEST_F(LocalTest, TheCommandsExitCodeIsReturnedAndNothingStays) {
  StartLocal({"--", "sh", "-c", "exit 7"});
  ExitStatus status;
  ASSERT_TRUE(WaitForEnd(&local_, kPatience, &status));
  EXPECT_EQ(status.code, 7);
  ExpectNothingLeft();
}

}  // namespace
}  // namespace pipedream
