// The contract of JobStore, for every implementation.
#include "coordinator/store/job_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <memory>

#include "common/base/file.h"
#include "coordinator/store/memory_store.h"
#include "coordinator/store/sqlite_store.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A job with every part set.
Job MakeJob(const std::string& id, JobState state = JobState::kQueued) {
  Job job;
  job.id = id;
  job.spec.name = "name of " + id;
  job.spec.model = {"m.onnx", std::string(64, 'a'), 10};
  job.spec.train_columns.resize(1);
  job.spec.train_columns[0].name = "x";
  job.spec.train_columns[0].path = "x.npy";
  job.spec.loss = {{LossTerm::Kind::kCrossEntropy, "logits", "label", 1.0}};
  job.spec.warmup = {2, 1};
  job.state = state;
  job.reason = "because";
  job.attempt = 1;
  job.created_us = 5;
  job.run = {.train_samples = 100, .batch_size = 10, .epochs = 2};
  job.warnings = {"w"};
  job.last_sequence = 3;
  return job;
}

Job MakeFinishedJob(const std::string& id) {
  Job job = MakeJob(id, JobState::kFailed);
  Plan plan;
  plan.schedule = "pipedream";
  PlanStage stage;
  stage.nodes = {0};
  stage.workers = {"w1"};
  plan.stages = {stage};
  job.plan = plan;
  job.failure = JobFailure{"WORKER_LOST", "gone", absl::StatusCode::kUnavailable, "w1", 0, 0, "F3"};
  job.progress.minibatch = 7;
  job.progress.curve = {{0, 1, 2.5, 20}};
  job.progress.evaluations = {{0, 1.5, 8, 10, 10}};
  StageStatus status;
  status.worker_id = "w1";
  status.operation = "F3";
  status.forward_s = 0.25;
  job.progress.stages = {status};
  job.timings.of(JobState::kRunning) = 1.5;
  job.result_sha256 = std::string(64, 'b');
  job.ledger_sha256 = std::string(64, 'c');
  return job;
}

StoreBatch Jobs(std::vector<Job> jobs) {
  StoreBatch batch;
  batch.jobs = std::move(jobs);
  return batch;
}

std::vector<std::string> Ids(const std::vector<Job>& jobs) {
  std::vector<std::string> ids;
  for (const Job& job : jobs) ids.push_back(job.id);
  return ids;
}

class JobStoreTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/store-XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    Reopen();
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }
  bool durable() const { return GetParam(); }
  // What a restart finds; the memory store just goes on.
  void Reopen() {
    if (!durable()) {
      if (store_ == nullptr) store_ = std::make_unique<MemoryStore>();
      return;
    }
    store_.reset();
    ASSERT_OK_AND_ASSIGN(store_, OpenSqliteStore(folder_ + "/jobs.sqlite"));
  }
  std::string folder_;
  std::unique_ptr<JobStore> store_;
};

TEST_P(JobStoreTest, JobsComeBackAsTheyWere) {
  Job queued = MakeJob("a"), failed = MakeFinishedJob("b");
  ASSERT_OK(store_->Apply(Jobs({queued, failed})));
  Reopen();
  ASSERT_OK_AND_ASSIGN(Job a, store_->GetJob("a"));
  EXPECT_TRUE(a == queued);
  ASSERT_OK_AND_ASSIGN(Job b, store_->GetJob("b"));
  EXPECT_TRUE(b == failed);
  EXPECT_THAT(store_->GetJob("c"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'c'")));
}

TEST_P(JobStoreTest, UnfinishedJobsAreOldestFirst) {
  ASSERT_OK(store_->Apply(Jobs({MakeJob("b"), MakeJob("a"), MakeJob("c")})));
  ASSERT_OK(store_->Apply(Jobs({MakeJob("b", JobState::kRunning), MakeFinishedJob("a")})));
  Reopen();
  ASSERT_OK_AND_ASSIGN(auto jobs, store_->UnfinishedJobs());
  EXPECT_THAT(Ids(jobs), ElementsAre("b", "c"));
  EXPECT_EQ(jobs[0].state, JobState::kRunning);
}

TEST_P(JobStoreTest, PagesAreNewestFirstAndStable) {
  for (const char* id : {"1", "2", "3", "4", "5"}) ASSERT_OK(store_->Apply(Jobs({MakeJob(id)})));
  ASSERT_OK_AND_ASSIGN(JobPage first, store_->ListJobs({}, 2, ""));
  EXPECT_THAT(Ids(first.jobs), ElementsAre("5", "4"));
  ASSERT_OK(store_->Apply(Jobs({MakeJob("6")})));
  ASSERT_OK_AND_ASSIGN(JobPage second, store_->ListJobs({}, 2, first.next_token));
  EXPECT_THAT(Ids(second.jobs), ElementsAre("3", "2"));
  ASSERT_OK_AND_ASSIGN(JobPage last, store_->ListJobs({}, 2, second.next_token));
  EXPECT_THAT(Ids(last.jobs), ElementsAre("1"));
  EXPECT_EQ(last.next_token, "");
  EXPECT_THAT(store_->ListJobs({}, 2, "x"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_token 'x'")));
}

TEST_P(JobStoreTest, AFullLastPageHasNoNext) {
  ASSERT_OK(store_->Apply(Jobs({MakeJob("1"), MakeJob("2")})));
  ASSERT_OK_AND_ASSIGN(JobPage page, store_->ListJobs({}, 2, ""));
  EXPECT_EQ(page.jobs.size(), 2u);
  EXPECT_EQ(page.next_token, "");
}

TEST_P(JobStoreTest, ListsByState) {
  ASSERT_OK(
      store_->Apply(Jobs({MakeJob("q"), MakeFinishedJob("f"), MakeJob("r", JobState::kRunning)})));
  ASSERT_OK_AND_ASSIGN(JobPage page,
                       store_->ListJobs({JobState::kQueued, JobState::kRunning}, 10, ""));
  EXPECT_THAT(Ids(page.jobs), ElementsAre("r", "q"));
}

TEST_P(JobStoreTest, EventsAreReadAfterASequenceNumber) {
  StoreBatch batch;
  for (int i = 1; i <= 4; ++i)
    batch.events.push_back({"a", {i, 10 * i, "info", "coordinator", "m" + std::to_string(i)}});
  batch.events.push_back({"b", {1, 1, "error", "w1", "other"}});
  ASSERT_OK(store_->Apply(batch));
  Reopen();
  ASSERT_OK_AND_ASSIGN(auto events, store_->Events("a", 1, 2));
  EXPECT_THAT(events, ElementsAre(JobEvent{2, 20, "info", "coordinator", "m2"},
                                  JobEvent{3, 30, "info", "coordinator", "m3"}));
  ASSERT_OK_AND_ASSIGN(auto none, store_->Events("a", 4, 10));
  EXPECT_THAT(none, IsEmpty());
  ASSERT_OK_AND_ASSIGN(auto unknown, store_->Events("c", 0, 10));
  EXPECT_THAT(unknown, IsEmpty());
}

TEST_P(JobStoreTest, AKeyIsTakenOnceAndNothingOfARefusedBatchStays) {
  StoreBatch batch = Jobs({MakeJob("a")});
  batch.keys = {{"key", "a", "hash"}};
  ASSERT_OK(store_->Apply(batch));
  StoreBatch again = Jobs({MakeJob("b")});
  again.events.push_back({"b", {1, 1, "info", "coordinator", "x"}});
  again.keys = {{"key", "b", "hash"}};
  EXPECT_THAT(store_->Apply(again), StatusIs(absl::StatusCode::kAlreadyExists, testing::_));
  Reopen();
  EXPECT_THAT(store_->GetJob("b"), StatusIs(absl::StatusCode::kNotFound, testing::_));
  ASSERT_OK_AND_ASSIGN(auto events, store_->Events("b", 0, 10));
  EXPECT_THAT(events, IsEmpty());
  ASSERT_OK_AND_ASSIGN(auto key, store_->FindKey("key"));
  EXPECT_EQ(key, (IdempotencyKey{"key", "a", "hash"}));
  ASSERT_OK_AND_ASSIGN(auto none, store_->FindKey("other"));
  EXPECT_FALSE(none.has_value());
}

TEST_P(JobStoreTest, ProfilesAndWorkerIdsStay) {
  StoreBatch batch;
  Profile profile;
  profile.device_kind = "cpu";
  profile.microbatch_size = 8;
  profile.step_s = 0.5;
  profile.nodes = {{.name = "conv", .op = "Conv", .forward_s = 0.1}};
  batch.profiles = {{"key", profile}};
  batch.worker_ids = {"w2", "w1", "w2"};
  ASSERT_OK(store_->Apply(batch));
  ASSERT_OK(store_->Apply(batch));
  Reopen();
  ASSERT_OK_AND_ASSIGN(auto profiles, store_->Profiles());
  ASSERT_EQ(profiles.size(), 1u);
  EXPECT_TRUE(profiles["key"] == profile);
  ASSERT_OK_AND_ASSIGN(auto ids, store_->WorkerIds());
  EXPECT_THAT(ids, ElementsAre("w1", "w2"));
}

TEST_P(JobStoreTest, JobNumbersGrow) {
  ASSERT_OK_AND_ASSIGN(int64_t first, store_->NextJobNumber());
  EXPECT_EQ(first, 1);
  ASSERT_OK(store_->Apply(Jobs({MakeJob("a"), MakeJob("b")})));
  ASSERT_OK(store_->Apply(Jobs({MakeFinishedJob("a")})));
  Reopen();
  ASSERT_OK_AND_ASSIGN(int64_t next, store_->NextJobNumber());
  EXPECT_EQ(next, 3);
  ASSERT_OK(store_->Apply(Jobs({MakeJob("c")})));
  ASSERT_OK_AND_ASSIGN(next, store_->NextJobNumber());
  EXPECT_EQ(next, 4) << "an update was counted as a job";
}

INSTANTIATE_TEST_SUITE_P(Stores, JobStoreTest, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Sqlite" : "Memory"; });

TEST(SqliteStore, RefusesAFileOfANewerVersionAndOneThatIsNoDatabase) {
  std::string folder = testing::TempDir() + "/sqlite-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((folder + "/new").c_str(), &db), SQLITE_OK);
  sqlite3_exec(db, "PRAGMA user_version=99", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  EXPECT_THAT(OpenSqliteStore(folder + "/new"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("version 99")));
  ASSERT_OK(WriteFileAtomic(folder + "/junk", std::string(5000, 'x')));
  EXPECT_THAT(OpenSqliteStore(folder + "/junk"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("/junk")));
  EXPECT_THAT(OpenSqliteStore(folder + "/no/such/folder"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("/no/such/folder")));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace pipedream
