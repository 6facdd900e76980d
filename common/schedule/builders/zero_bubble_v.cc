#include <algorithm>

#include "common/base/status.h"
#include "common/schedule/builders/builders.h"

namespace pipedream {
namespace {

// Emits one minibatch's instructions. The phases are made for 2p microbatches or more; of those
// that do not exist everything is left out, which keeps the order of the rest right.
class Minibatch {
 public:
  Minibatch(const OwnMicrobatches& own, MinibatchUpdates& updates,
            std::vector<Instruction>& program)
      : own_(own), updates_(updates), program_(program) {}

  void Forward(int chunk) { Emit(Op::kForward, chunk, forwards_[chunk]++); }
  void Input(int chunk) { Emit(Op::kBackwardInput, chunk, inputs_[chunk]++); }
  void Weight(int chunk) { Emit(Op::kBackwardWeight, chunk, weights_[chunk]++); }
  int64_t forwards(int chunk) const { return forwards_[chunk]; }
  bool owes_weight(int chunk) const { return weights_[chunk] < inputs_[chunk]; }

 private:
  void Emit(Op op, int32_t chunk, int64_t k) {
    if (k >= own_.count) return;
    if (op != Op::kForward) updates_.Validate();
    program_.push_back({.op = op, .microbatch = own_[k], .chunk = chunk});
  }

  const OwnMicrobatches& own_;
  MinibatchUpdates& updates_;
  std::vector<Instruction>& program_;
  int64_t forwards_[2] = {}, inputs_[2] = {}, weights_[2] = {};
};

void EmitMinibatch(Minibatch& batch, int64_t p, int64_t d, int64_t m) {
  for (int64_t k = 0; k < 2 * (p - d) - 1; ++k) batch.Forward(0);
  for (int64_t k = 0; k < d; ++k) {
    batch.Forward(1);
    batch.Forward(0);
  }
  for (int64_t k = 0; k < p - d; ++k) {
    batch.Forward(1);
    batch.Input(1);
    batch.Weight(1);
  }
  while (batch.forwards(1) < m) {
    if (batch.forwards(0) < m) batch.Forward(0);
    batch.Input(0);
    batch.Weight(0);
    batch.Forward(1);
    batch.Input(1);
    batch.Weight(1);
  }
  for (int64_t k = 0; k < d; ++k) {
    batch.Input(0);
    batch.Input(1);
  }
  for (int64_t k = 0; k < p - d; ++k) {
    batch.Input(0);
    batch.Weight(0);
  }
  for (int chunk : {1, 0}) {
    while (batch.owes_weight(chunk)) batch.Weight(chunk);
  }
}

}  // namespace

std::vector<int> PlaceZeroBubbleV(int devices, int) {
  std::vector<int> device_of;
  for (int s = 0; s < 2 * devices; ++s) device_of.push_back(std::min(s, 2 * devices - 1 - s));
  return device_of;
}

absl::Status CheckZeroBubbleV(const ScheduleShape& shape) {
  PD_RETURN_IF_ERROR(Validate(shape));
  if (shape.stages() % 2 != 0) {
    return InvalidArgument("stages: {}, but schedule 'zb_v' has two on each device",
                           shape.stages());
  }
  return CheckPlacement(shape, PlaceZeroBubbleV(shape.stages() / 2, 2), "zb_v");
}

std::vector<Instruction> EmitZeroBubbleV(const ScheduleShape& shape, StageId stage,
                                         ReplicaId replica) {
  const int64_t p = shape.devices();
  std::vector<Instruction> program;
  MinibatchUpdates updates(shape, WeightPolicy::kSpeculative, {stage, replica}, &program);
  for (int64_t t = 0; t < shape.minibatches(); ++t) {
    const OwnMicrobatches own = OwnOf(shape, stage, replica, t);
    Minibatch batch(own, updates, program);
    EmitMinibatch(batch, p, stage.value(), std::max(own.count, 2 * p));
    updates.Update(t);
  }
  return program;
}

}  // namespace pipedream
