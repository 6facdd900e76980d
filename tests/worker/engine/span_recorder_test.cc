#include "worker/engine/span_recorder.h"

#include <gmock/gmock.h>

#include "common/schedule/schedules.h"
#include "tests/support/small_job.h"
#include "tests/support/status_matchers.h"
#include "worker/engine/simulation.h"

namespace pipedream {
namespace {

RecordedSpan At(std::string_view instruction, int begun_ms, int started_ms, int ended_ms) {
  using Ms = std::chrono::milliseconds;
  return {*ParseInstruction(instruction), Ms(begun_ms), Ms(started_ms), Ms(ended_ms)};
}

TEST(SpanRecorder, KeepsTheNewest) {
  SpanRecorder recorder(3);
  EXPECT_TRUE(recorder.Recorded().empty());
  for (int k = 0; k < 5; ++k) {
    recorder.Record(At("F0@v0#0", k, k, k + 1));
    EXPECT_EQ(recorder.recorded(), static_cast<uint64_t>(k + 1));
  }
  const std::vector<RecordedSpan> kept = recorder.Recorded();
  ASSERT_EQ(kept.size(), 3u);
  for (int k = 0; k < 3; ++k) EXPECT_EQ(kept[k].begun, std::chrono::milliseconds(k + 2));
}

TEST(SpanRecorder, SpansAreThoseOfTheSimulator) {
  const std::vector<RecordedSpan> recorded = {
      At("RA0<0.0", 1000, 1090, 1100), At("F0@v0#0", 1100, 1100, 1200),
      At("SA0>2.0", 1200, 1250, 1260), At("P@v0", 1260, 1260, 1260),
      At("R0", 1260, 1300, 1301),
  };
  const Peer worker{StageId(1), ReplicaId(0)};
  const std::vector<Span> spans = SpansOf(worker, recorded, std::chrono::seconds(1));
  ASSERT_EQ(spans.size(), 3u);  // neither the receive nor what took no time
  const double expected[][2] = {{0.1, 0.2}, {0.25, 0.26}, {0.26, 0.301}};
  for (int k = 0; k < 3; ++k) {
    EXPECT_EQ(spans[k].worker, worker);
    EXPECT_DOUBLE_EQ(spans[k].start_s, expected[k][0]);
    EXPECT_DOUBLE_EQ(spans[k].end_s, expected[k][1]);
  }
  EXPECT_EQ(spans[2].instruction, recorded[4].instruction);
}

// What an executor has run is its program, whole and in order, and one after the other.
TEST(SpanRecorder, HasEveryInstructionOfARun) {
  SmallJob job;
  SimulationOptions options;
  options.model = job.model();
  options.spec = job.Spec();
  options.spec.epochs = 1;
  options.train = job.train();
  options.run = MakeRunShape(options.spec, job.train()->rows(), 0);
  options.stage_of = job.EvenStages(2);
  options.replicas = {2, 1};
  ASSERT_OK_AND_ASSIGN(ScheduleShape shape, ShapeOf(options));
  ASSERT_OK_AND_ASSIGN(options.programs, MakePrograms("pipedream", shape));
  std::vector<SpanRecorder> recorders(options.programs.size(), SpanRecorder(1000));
  for (SpanRecorder& recorder : recorders) options.recorders.push_back(&recorder);
  ASSERT_OK(Simulate(options).status());
  for (size_t w = 0; w < recorders.size(); ++w) {
    const std::vector<Instruction> program = Unroll(options.programs[w]);
    const std::vector<RecordedSpan> recorded = recorders[w].Recorded();
    ASSERT_EQ(recorded.size(), program.size());
    Duration before{};
    for (size_t k = 0; k < program.size(); ++k) {
      EXPECT_EQ(recorded[k].instruction, program[k]);
      EXPECT_LE(before, recorded[k].begun);
      EXPECT_LE(recorded[k].begun, recorded[k].started);
      EXPECT_LE(recorded[k].started, recorded[k].ended);
      before = recorded[k].ended;
    }
  }
}

}  // namespace
}  // namespace pipedream
