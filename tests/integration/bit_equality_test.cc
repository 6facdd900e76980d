// What three worker processes train must be what one thread computes for the same plan.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/integration/cluster.h"
#include "tests/integration/trained_model.h"
#include "tests/support/small_job.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

struct Trained {
  v1::Job job;
  std::string onnx;
};

absl::StatusOr<Trained> TrainAndExport(const TestCluster& cluster, const Words& words) {
  PD_ASSIGN_OR_RETURN(v1::Job job, cluster.Train(words));
  const std::string path = cluster.folder() + "/" + job.id() + ".onnx";
  CommandResult exported = cluster.Run({"export", job.id(), "--onnx", path});
  if (exported.code != 0) return Internal("export ended with {}: {}", exported.code, exported.err);
  return Trained{std::move(job), path};
}

struct Layout {
  const char* name;
  Words flags;
  Words worker_flags = {};
  const char* configs;  // acceptable ones
};
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

class BitEqualityTest : public testing::TestWithParam<Layout> {};

TEST_P(BitEqualityTest, ProcessesTrainWhatOneThreadComputesForTheSamePlan) {
  SmallJob small;
  TestCluster cluster;
  ASSERT_OK(cluster.Start(Patient(3, GetParam().worker_flags)));
  ASSERT_OK_AND_ASSIGN(Trained trained, TrainAndExport(cluster, JobWords(small, GetParam().flags)));
  EXPECT_THAT(GetParam().configs, testing::HasSubstr(ConfigOf(trained.job)));
  ASSERT_OK_AND_ASSIGN(SimulationOptions options, SimulationOf(trained.job, small));
  ASSERT_OK_AND_ASSIGN(SimulationResult simulated, Simulate(options));
  ExpectBitEqual(trained.job, trained.onnx, simulated);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, BitEqualityTest,
    testing::Values(Layout{.name = "StraightOverSharedMemory",
                           .flags = {"--stages", "3", "--max-replicas", "1", "--transport", "shm"},
                           .configs = "1-1-1"},
                    Layout{.name = "StraightOverTcp",
                           .flags = {"--stages", "3", "--max-replicas", "1", "--transport", "tcp"},
                           .worker_flags = {"--transport", "tcp"},
                           .configs = "1-1-1"},
                    Layout{.name = "ReplicatedStage",
                           .flags = {"--stages", "2", "--workers", "3"},
                           .configs = "2-1, 1-2"},
                    Layout{.name = "DataParallel", .flags = {"--stages", "1"}, .configs = "3"},
                    Layout{.name = "ReplicatedStageThatFlushes",
                           .flags = {"--stages", "2", "--workers", "3", "--schedule", "1f1b",
                                     "--microbatches", "4"},
                           .configs = "2-1, 1-2"}),
    [](const auto& info) { return std::string(info.param.name); });

class FlushTest : public testing::TestWithParam<const char*> {};

// Microbatches of 3, 3 and 2 samples, and of 3 and 2 in the last minibatch.
TEST_P(FlushTest, APipelineOfProcessesTrainsWhatOneStageDoes) {
  SmallJob small;
  TestCluster cluster;
  ASSERT_OK(cluster.Start(Patient(3)));
  ASSERT_OK_AND_ASSIGN(
      Trained trained,
      TrainAndExport(cluster, JobWords(small, {"--stages", "3", "--max-replicas", "1", "--schedule",
                                               GetParam(), "--microbatches", "3"})));
  EXPECT_EQ(ConfigOf(trained.job), "1-1-1");
  ASSERT_OK_AND_ASSIGN(SimulationOptions options, SimulationOf(trained.job, small));
  ASSERT_OK_AND_ASSIGN(SimulationResult whole, Simulate(OnOneStage(options)));
  ExpectBitEqual(trained.job, trained.onnx, whole);
}

INSTANTIATE_TEST_SUITE_P(Schedules, FlushTest, testing::Values("1f1b", "gpipe"),
                         [](const auto& info) {
                           return info.param == std::string("gpipe") ? "GPipe" : "OneFOneB";
                         });

}  // namespace
}  // namespace pipedream
