// `pipedream verify` of what worker processes trained.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/integration/cluster.h"
#include "tests/integration/trained_model.h"
#include "tests/support/small_job.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::HasSubstr;

TEST(VerifyTest, SaysWhichSemanticsARunFollowed) {
  SmallJob small;
  TestCluster cluster;
  ASSERT_OK(cluster.Start(Patient(3)));
  struct Case {
    Words flags;
    const char* verdict;
  };
  for (const Case& c :
       {Case{{"--stages", "3", "--max-replicas", "1"},
             "VERIFIED; schedule pipedream promises stash, the run followed stash; replayed 10 of "
             "10 minibatches"},
        Case{{"--stages", "2", "--workers", "3", "--schedule", "2bw", "--microbatches", "4"},
             "VERIFIED; schedule 2bw promises 2bw, the run followed 2bw; replayed 10 of 10 "
             "minibatches"}}) {
    ASSERT_OK_AND_ASSIGN(v1::Job job, cluster.Train(JobWords(small, c.flags)));
    EXPECT_EQ(job.ledger_sha256().size(), 64u);
    const CommandResult verified = cluster.Run({"verify", job.id()});
    EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
    EXPECT_THAT(verified.out, HasSubstr(job.id() + ": " + c.verdict));
    EXPECT_THAT(verified.out, HasSubstr("equal bit for bit in 10 of 10 minibatches"));
    EXPECT_THAT(verified.out, HasSubstr("exports the same model, byte for byte"));
    EXPECT_THAT(verified.out, testing::Not(HasSubstr("FAILED")));
    EXPECT_THAT(verified.out, testing::Not(HasSubstr("skipped")));
  }
  // The worker that replayed is free again: a job for all three runs.
  EXPECT_OK(cluster.Train(JobWords(small, {"--stages", "3", "--max-replicas", "1"})));
}

TEST(VerifyTest, ReplaysTheBeginningAndSpeaksJson) {
  SmallJob small;
  TestCluster cluster;
  ASSERT_OK(cluster.Start(Patient(2)));
  ASSERT_OK_AND_ASSIGN(v1::Job job,
                       cluster.Train(JobWords(
                           small, {"--stages", "2", "--schedule", "1f1b", "--microbatches", "3"})));
  const CommandResult verified = cluster.Run({"verify", job.id(), "--steps", "4", "-o", "json"});
  ASSERT_EQ(verified.code, 0) << verified.out << verified.err;
  const nlohmann::json report = nlohmann::json::parse(verified.out);
  EXPECT_EQ(report["kind"], "VerifyReport");
  EXPECT_EQ(report["verified"], true);
  EXPECT_EQ(report["followed"], nlohmann::json({"flush"}));
  EXPECT_EQ(report["replayed"], 4);
  EXPECT_EQ(report["checks"].back()["name"], "result");
  EXPECT_EQ(report["checks"].back()["outcome"], "SKIPPED");
}

TEST(VerifyTest, SaysWhyARunCannotBeVerified) {
  SmallJob small;
  TestCluster cluster;
  ASSERT_OK(cluster.Start(Patient(1)));
  auto expect = [&](const std::string& id, int code, const std::string& why) {
    const CommandResult result = cluster.Run({"verify", id});
    EXPECT_EQ(result.code, code) << result.out;
    EXPECT_THAT(result.err, HasSubstr(why));
  };
  expect("job-9", 4, "no job job-9");
  ASSERT_OK_AND_ASSIGN(v1::Job job, cluster.Train(JobWords(small, {"--no-ledger"})));
  EXPECT_EQ(job.ledger_sha256(), "");
  expect(job.id(), 8, "kept no ledger; it was submitted with ledger: false");
  // A second worker never comes.
  Words words = JobWords(small, {"--workers", "2", "-o", "name"});
  words.insert(words.begin(), "submit");
  const CommandResult waiting = cluster.Run(words);
  ASSERT_EQ(waiting.code, 0) << waiting.err;
  const std::string id = waiting.out.substr(0, waiting.out.find('\n'));
  expect(id, 8, "is QUEUED: a run can be verified once it has succeeded");
  ASSERT_EQ(cluster.Run({"cancel", id}).code, 0);
  expect(id, 8, "is CANCELLED: only a run that succeeded can be verified");
}

}  // namespace
}  // namespace pipedream
