#include <algorithm>

#include "common/schedule/builders/builders.h"

namespace pipedream {
namespace {

struct Unit {
  int32_t chunk;
  int64_t index;  // among the replica's microbatches of the minibatch
};

// Groups of `devices` microbatches, each through all chunks in turn.
std::vector<Unit> UnitsOf(int64_t microbatches, int devices, int chunks, bool backward) {
  std::vector<Unit> units;
  for (int64_t first = 0; first < microbatches; first += devices) {
    const int64_t end = std::min(first + devices, microbatches);
    for (int32_t k = 0; k < chunks; ++k) {
      for (int64_t i = first; i < end; ++i) units.push_back({backward ? chunks - 1 - k : k, i});
    }
  }
  return units;
}

}  // namespace

std::vector<int> PlaceInterleaved(int devices, int chunks) {
  std::vector<int> device_of;
  for (int s = 0; s < devices * chunks; ++s) device_of.push_back(s % devices);
  return device_of;
}

absl::Status CheckInterleaved(const ScheduleShape& shape) {
  const int devices = std::max(shape.devices(), 1);
  return CheckPlacement(shape, PlaceInterleaved(devices, shape.stages() / devices), "interleaved");
}

std::vector<Instruction> EmitInterleaved(const ScheduleShape& shape, StageId stage,
                                         ReplicaId replica) {
  const int devices = shape.devices(), chunks = shape.stages() / devices;
  std::vector<Instruction> program;
  MinibatchUpdates updates(shape, WeightPolicy::kFlush, {stage, replica}, &program);
  for (int64_t t = 0; t < shape.minibatches(); ++t) {
    const OwnMicrobatches own = OwnOf(shape, stage, replica, t);
    const std::vector<Unit> forward = UnitsOf(own.count, devices, chunks, false);
    const std::vector<Unit> backward = UnitsOf(own.count, devices, chunks, true);
    const size_t warmup = std::min<size_t>(
        forward.size(), 2 * (devices - 1 - stage.value()) + (chunks - 1) * devices);
    for (size_t k = 0; k < forward.size() + warmup; ++k) {
      if (k < forward.size()) {
        program.push_back(
            {.op = Op::kForward, .microbatch = own[forward[k].index], .chunk = forward[k].chunk});
      }
      if (k >= warmup) {
        const Unit& unit = backward[k - warmup];
        program.push_back(
            {.op = Op::kBackward, .microbatch = own[unit.index], .chunk = unit.chunk});
      }
    }
    updates.Update(t);
  }
  return program;
}

}  // namespace pipedream
