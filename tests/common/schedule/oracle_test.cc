// The recorded runs of ../shared/oracle/pipeline say which version each unit read, in which order
// the first replica worked, and what was in flight and alive.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/schedule/residency.h"
#include "common/schedule/schedules.h"
#include "tests/common/schedule/shapes.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

using Json = nlohmann::json;

std::string ScheduleOf(const std::string& policy) {
  if (policy == "stash") return "pipedream";
  if (policy == "vsync") return "pipedream_vsync";
  if (policy == "2bw") return "2bw";
  if (policy == "flush") return "gpipe";
  if (policy == "flush-1f1b" || policy == "sync") return "1f1b";
  return "";
}

void Compare(const Json& run, int minibatches, const std::string& schedule) {
  ScheduleShape shape = MakeShape(run["replicas"].get<std::vector<int>>(), minibatches,
                                  run["microbatches"].get<int>());
  shape.warmup = run["warmup_forwards"].get<std::vector<int>>();
  ASSERT_OK_AND_ASSIGN(std::vector<StageProgram> programs, MakePrograms(schedule, shape));
  std::vector<std::vector<int64_t>> read_by(shape.stages());
  for (auto& versions : read_by) versions.assign(shape.microbatches(), -1);
  std::vector<int> in_flight(shape.stages()), versions(shape.stages());
  for (const StageProgram& program : programs) {
    int s = program.stage.value();
    std::vector<std::string> order;
    Residency residency(shape, program.policy, program.stage);
    for (const Instruction& instruction : Unroll(program)) {
      residency.Apply(instruction);
      if (instruction.op != Op::kForward && instruction.op != Op::kBackward) continue;
      order.push_back(fmt::format("{}{}", Mnemonic(instruction.op), instruction.microbatch));
      int64_t& read = read_by[s][instruction.microbatch.value()];
      if (instruction.op == Op::kForward) read = instruction.version.value();
      EXPECT_EQ(read, instruction.version.value());
    }
    in_flight[s] = std::max(in_flight[s], residency.peak_in_flight());
    versions[s] = std::max(versions[s], program.needs[0].versions);
    EXPECT_EQ(program.needs[0].slots, residency.peak_in_flight());
    if (program.replica.value() != 0) continue;
    auto expected = run["op_order_first_replica"][s].get<std::vector<std::string>>();
    order.resize(std::min(order.size(), expected.size()));
    EXPECT_EQ(order, expected) << "stage " << s;
  }
  EXPECT_EQ(read_by, run["version_used"].get<std::vector<std::vector<int64_t>>>());
  EXPECT_EQ(in_flight, run["max_in_flight"].get<std::vector<int>>());
  EXPECT_EQ(versions, run["max_live_versions"].get<std::vector<int>>());
}

TEST(ScheduleOracle, EveryRecordedRunIsReproduced) {
  PD_SKIP_WITHOUT_SHARED_DATA();
  int runs = 0;
  for (const auto& folder :
       std::filesystem::directory_iterator(SharedDataDir() + "/oracle/pipeline")) {
    std::ifstream file(folder.path() / "pipeline.json");
    Json pipeline = Json::parse(file);
    for (const auto& [name, run] : pipeline["runs"].items()) {
      std::string schedule = ScheduleOf(run["policy"]);
      if (schedule.empty() || !run.contains("version_used")) continue;  // numbers only
      SCOPED_TRACE(folder.path().filename().string() + " " + name);
      Compare(run, pipeline["minibatches"], schedule);
      ++runs;
    }
  }
  EXPECT_GE(runs, 10);
  RecordProperty("runs", runs);
}

}  // namespace
}  // namespace pipedream
