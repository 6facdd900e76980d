#include "bench/measured_costs.h"

#include <gmock/gmock.h>

#include <map>

#include "common/schedule/schedules.h"
#include "tests/common/schedule/shapes.h"
#include "tests/support/status_matchers.h"

namespace pipedream {
namespace {

constexpr int kMicrobatches = 4, kMinibatches = 3;

ScheduleShape TwoStages() { return MakeShape({1, 1}, kMinibatches, kMicrobatches); }

// Whole seconds, all different: what each stage's instructions cost.
SimulateOptions Known() {
  SimulateOptions options;
  for (int s = 0; s < 2; ++s) {
    StageCosts costs;
    costs.forward_s = 10 + s;
    costs.backward_input_s = 20 + s;
    costs.backward_s = 50 + s;
    costs.step_s = 3 + s;
    options.stages.push_back(costs);
  }
  LinkCosts link;
  link.latency_s = 2;
  link.activation_pack_s = 5;
  link.gradient_pack_s = 7;
  options.links = {link};
  options.record_spans = true;
  return options;
}

// What a recorder would have noted had the simulated run been real. The simulator's sends are on
// the link; before that they were packed. Receives begin when their worker has done all before and
// end with the arrival. The first minibatch is made to look ten times as slow, which must not
// matter.
RealRun Recorded(const std::vector<StageProgram>& programs, const Simulation& played) {
  RealRun run;
  run.programs = programs;
  std::map<std::pair<Op, int64_t>, double> arrivals;
  for (const Span& span : played.spans) {
    if (IsSend(span.instruction.op))
      arrivals[{span.instruction.op, span.instruction.microbatch.value()}] = span.end_s;
  }
  for (const StageProgram& program : programs) {
    std::vector<RecordedSpan>& worker = run.workers.emplace_back();
    std::map<Instruction, Span> own;
    for (const Span& span : played.spans) {
      if (span.worker.stage == program.stage) own[span.instruction] = span;
    }
    double now = 0;
    for (const Instruction& instruction : Unroll(program)) {
      double start = now, end = now;
      if (IsReceive(instruction.op)) {
        const Op send =
            instruction.op == Op::kReceiveActivation ? Op::kSendActivation : Op::kSendGradient;
        start = end = std::max(now, arrivals.at({send, instruction.microbatch.value()}));
      } else if (IsSend(instruction.op)) {
        end = own.at(instruction).start_s;
        start = end - (instruction.op == Op::kSendActivation ? 5 : 7);
      } else if (instruction.op != Op::kPin && instruction.op != Op::kUnpin) {
        start = own.at(instruction).start_s;
        end = own.at(instruction).end_s;
      }
      worker.push_back({instruction, FromSeconds(now), FromSeconds(start), FromSeconds(end)});
      const bool update = CounterOf(instruction.op) == Counter::kUpdate;
      if (instruction.microbatch.value() < (update ? 1 : kMicrobatches))
        worker.back().started = FromSeconds(start - 9 * (end - start));
      now = end;
    }
  }
  return run;
}

TEST(MeasuredCosts, AreThoseOfTheRun) {
  for (std::string_view schedule : {"1f1b", "gpipe", "zb_h1", "2bw"}) {
    SCOPED_TRACE(schedule);
    ASSERT_OK_AND_ASSIGN(auto programs, MakePrograms(schedule, TwoStages()));
    ASSERT_OK_AND_ASSIGN(Simulation played, Simulate(programs, Known()));
    const SimulateOptions found = MeasuredCosts(Recorded(programs, played), kMicrobatches);
    const SimulateOptions known = Known();
    const bool split = schedule == "zb_h1";
    ASSERT_EQ(found.stages.size(), 2u);
    for (int s = 0; s < 2; ++s) {
      EXPECT_NEAR(found.stages[s].forward_s, known.stages[s].forward_s, 1e-6);
      EXPECT_NEAR(found.stages[s].backward_s, known.stages[s].backward_s, 1e-6);
      EXPECT_NEAR(found.stages[s].backward_input_s, split ? known.stages[s].backward_input_s : 0,
                  1e-6);
      EXPECT_NEAR(found.stages[s].step_s, known.stages[s].step_s, 1e-6);
    }
    ASSERT_EQ(found.links.size(), 1u);
    EXPECT_NEAR(found.links[0].activation_pack_s, 5, 1e-6);
    EXPECT_NEAR(found.links[0].gradient_pack_s, 7, 1e-6);
    EXPECT_NEAR(found.links[0].latency_s, 2, 1e-6);
  }
}

// Both have to come; the sum takes 4 s from when the later one is there.
TEST(MeasuredCosts, AReductionBeginsWithTheLastReplica) {
  ScheduleShape shape = MakeShape({2}, 2, 2);
  RealRun run;
  ASSERT_OK_AND_ASSIGN(run.programs, MakePrograms("data_parallel", shape));
  using std::chrono::seconds;
  const Instruction r0 = *ParseInstruction("R0"), r1 = *ParseInstruction("R1");
  run.workers = {
      {{r0, seconds(0), seconds(1), seconds(90)}, {r1, seconds(90), seconds(99), seconds(104)}},
      {{r0, seconds(0), seconds(1), seconds(90)}, {r1, seconds(100), seconds(100), seconds(104)}}};
  EXPECT_DOUBLE_EQ(MeasuredCosts(run, 2).stages[0].reduce_s, 4);
}

// GPipe, all costs equal: a minibatch is (m + p - 1)(tF + tB) long, and nothing of it overlaps with
// the next.
TEST(TimesOf, LeavesTheFirstMinibatchOut) {
  SimulateOptions options;
  options.stages.assign(2, {.forward_s = 1,
                            .backward_s = 2,
                            .backward_input_s = 0,
                            .step_s = 0,
                            .reduce_s = 0,
                            .norm_s = 0,
                            .evaluate_s = 0});
  options.record_spans = true;
  ASSERT_OK_AND_ASSIGN(auto programs, MakePrograms("gpipe", TwoStages()));
  ASSERT_OK_AND_ASSIGN(Simulation played, Simulate(programs, options));
  const RunTimes times = TimesOf(played.spans, kMicrobatches, kMinibatches);
  EXPECT_DOUBLE_EQ(times.span_s, (kMinibatches - 1) * (kMicrobatches + 1) * 3);
  EXPECT_DOUBLE_EQ(times.minibatch_s, (kMicrobatches + 1) * 3);
}

}  // namespace
}  // namespace pipedream
