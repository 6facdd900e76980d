#include "bench/measured_costs.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace pipedream {
namespace {

class Mean {
 public:
  void Add(double value) {
    sum_ += value;
    ++count_;
  }
  double value() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

 private:
  double sum_ = 0;
  int64_t count_ = 0;
};

bool IsWarmUp(const Instruction& instruction, const StageProgram& program, StageId stage,
              int64_t warm_up) {
  const int64_t number = instruction.microbatch.value();
  if (CounterOf(instruction.op) != Counter::kUpdate) return number < warm_up;
  return number * UpdateSpan(program.shape, program.policy, stage) < warm_up;
}

// A message by the stages at its ends and its microbatch.
using MessageId = std::tuple<int, int, int64_t>;

class Means {
 public:
  Means(const RealRun& run, int64_t warm_up) {
    for (size_t w = 0; w < run.workers.size(); ++w) {
      const StageProgram& program = run.programs[w];
      const std::vector<StageId> stages = program.stages();
      for (const RecordedSpan& span : run.workers[w]) {
        const StageId stage = stages[span.instruction.chunk];
        if (!IsWarmUp(span.instruction, program, stage, warm_up)) Add(span, stage.value());
      }
    }
    for (const auto& [id, reduction] : reductions_)
      compute_[{id.first, Op::kReduce}].Add(ToSeconds(reduction.ended - reduction.last_begun));
    for (const auto& [id, received] : received_) {
      auto [from, to, microbatch] = id;
      const RecordedSpan& sent = sent_.at(id);
      if (received.begun < sent.ended && received.ended > sent.ended)
        latency_[std::minmax(from, to)].Add(ToSeconds(received.ended - sent.ended));
    }
  }

  double Of(int stage, Op op) { return compute_[{stage, op}].value(); }
  double Packing(int from, int to) { return packing_[{from, to}].value(); }
  double Latency(int from, int to) { return latency_[std::minmax(from, to)].value(); }

 private:
  void Add(const RecordedSpan& span, int stage) {
    const Instruction& instruction = span.instruction;
    const int peer = instruction.peer.stage.value();
    if (IsSend(instruction.op)) {
      packing_[{stage, peer}].Add(span.run_s());
      sent_[{stage, peer, instruction.microbatch.value()}] = span;
    } else if (IsReceive(instruction.op)) {
      received_[{peer, stage, instruction.microbatch.value()}] = span;
    } else if (instruction.op == Op::kReduce) {
      Reduction& reduction = reductions_[{stage, instruction.microbatch.value()}];
      reduction.last_begun = std::max(reduction.last_begun, span.begun);
      reduction.ended = std::max(reduction.ended, span.ended);
    } else {
      compute_[{stage, instruction.op}].Add(span.run_s());
    }
  }

  // Of one update by the replicas of a stage: when the last of them came, and when it was done.
  struct Reduction {
    Duration last_begun{}, ended{};
  };

  std::map<std::pair<int, Op>, Mean> compute_;
  std::map<std::pair<int, int>, Mean> packing_;
  std::map<std::pair<int, int>, Mean> latency_;
  std::map<MessageId, RecordedSpan> sent_, received_;
  std::map<std::pair<int, int64_t>, Reduction> reductions_;  // by stage and update
};

}  // namespace

SimulateOptions MeasuredCosts(const RealRun& run, int64_t warm_up) {
  const ScheduleShape& shape = run.programs[0].shape;
  Means means(run, warm_up);
  SimulateOptions options;
  for (int s = 0; s < shape.stages(); ++s) {
    StageCosts costs;
    costs.forward_s = means.Of(s, Op::kForward);
    costs.backward_input_s = means.Of(s, Op::kBackwardInput);
    costs.backward_s =
        means.Of(s, Op::kBackward) + costs.backward_input_s + means.Of(s, Op::kBackwardWeight);
    costs.step_s = means.Of(s, Op::kStep);
    costs.reduce_s = means.Of(s, Op::kReduce);
    options.stages.push_back(costs);
  }
  for (const ScheduleEdge& edge : EdgesOf(shape)) {
    LinkCosts link;
    link.latency_s = means.Latency(edge.from, edge.to);
    link.activation_pack_s = means.Packing(edge.from, edge.to);
    link.gradient_pack_s = means.Packing(edge.to, edge.from);
    options.links.push_back(link);
  }
  options.channel_slots = run.programs[0].channel_slots;
  options.record_spans = true;
  return options;
}

RunTimes TimesOf(std::span<const Span> spans, int microbatches, int minibatches) {
  const int64_t last = int64_t{microbatches} * minibatches;
  double end = 0, warm = 0, retired = 0;
  for (const Span& span : spans) {
    end = std::max(end, span.end_s);
    const Op op = span.instruction.op;
    if (span.worker.stage.value() != 0 || span.instruction.chunk != 0) continue;
    if (op != Op::kBackward && op != Op::kBackwardWeight) continue;
    const int64_t i = span.instruction.microbatch.value();
    if (i < microbatches) warm = std::max(warm, span.end_s);
    if (i < last) retired = std::max(retired, span.end_s);
  }
  return {end - warm, (retired - warm) / (minibatches - 1)};
}

}  // namespace pipedream
