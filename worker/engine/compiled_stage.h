// A stage made ready to run at one microbatch size: prepared kernels with every tensor's place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/graph/training_graph.h"
#include "worker/ops/op_kernel.h"

namespace pipedream {

// Memory that a stage's tensors live in; each is one allocation.
enum class Region : uint8_t {
  kArena,       // temporaries of the program that runs
  kSlot,        // saved from forward to backward, one slab per microbatch in flight
  kParameters,  // one weight version
  kGradients,   // laid out as kParameters
  kStates,      // running statistics
  kConstants,
};
inline constexpr int kRegionCount = 6;

struct Place {
  Region region = Region::kArena;
  size_t offset = 0;
  bool present = false;  // false: the optional tensor is absent
};

// Base addresses for one run of a program, by Region.
struct Bases {
  std::byte* base[kRegionCount] = {};
  std::byte* Resolve(const Place& place) const {
    return place.present ? base[static_cast<int>(place.region)] + place.offset : nullptr;
  }
};

struct CompiledStep {
  NodeId node = kNoNode;             // that it computes, or reorders for
  std::unique_ptr<OpKernel> kernel;  // null: the output shares its input's memory, nothing to run
  std::vector<Place> inputs;
  std::vector<Place> outputs;
  size_t scratch_bytes = 0;
  size_t live_bytes = 0;       // temporaries alive while it runs, scratch included
  bool updates_state = false;  // changes running statistics in place
  // Operator, attributes, types, shapes and layouts: steps with equal ones do the same work.
  std::string signature;
  // Filled anew for every run; here so that running allocates nothing.
  std::vector<const void*> input_pointers;
  std::vector<void*> output_pointers;
};

// A tensor in a message: messages hold row-major tensors one after another, 64-byte aligned.
struct MessageItem {
  ValueId value;
  size_t message_offset = 0;
  size_t bytes = 0;  // row-major
  Place place;
  std::unique_ptr<OpKernel> reorder;  // from the place's layout to row-major; null: same
};

struct CompiledMessage {
  int stage = 0;  // at the other end
  std::vector<MessageItem> items;
  size_t bytes = 0;  // of the whole message
};

struct CompiledProgram {
  std::vector<CompiledStep> steps;
  size_t arena_bytes = 0;    // temporaries; scratch lies behind them
  size_t scratch_bytes = 0;  // the largest of its steps
  // Unpacked before it runs and packed afterwards; in order of the other stage.
  std::vector<CompiledMessage> received;
  std::vector<CompiledMessage> sent;
};

struct LoadItem {
  std::string column;  // dataset column: the model input's or label's name
  DataType dtype = DataType::kFloat32;
  Place place;
};

// Memory kept from forward to backward, with the values that share it.
struct SavedTensor {
  std::vector<ValueId> values;  // at least one, as they came to lie there
  size_t bytes = 0;
};

struct CompiledStage {
  int64_t samples = 0;  // microbatch size
  CompiledProgram forward;
  // Empty in the evaluation form, and where not asked for.
  CompiledProgram backward;
  // The same in two parts: all that earlier stages wait for, and the other gradients. What the
  // second reads of the first is kept in the slot, so that other microbatches may run between them.
  CompiledProgram backward_input;
  CompiledProgram backward_weight;
  std::vector<LoadItem> loads;
  std::vector<SavedTensor> saved;
  size_t slot_bytes = 0;       // one slab
  Place loss;                  // float32, on the stage that holds it
  Place correct;               // int64, if the loss counts
  int64_t loss_positions = 0;  // predictions that `correct` is out of, per microbatch

  // All that may be compiled.
  std::array<const CompiledProgram*, 4> programs() const {
    return {&forward, &backward, &backward_input, &backward_weight};
  }
};

// Where parameters, states and constants of a stage lie. Shared by all its compiled sizes: the
// first compilation chooses the parameters' layouts, later ones reorder where they must.
struct StoredTensor {
  ValueId value = kNoValue;
  std::string name;
  TensorSpec spec;  // as stored
  size_t offset = 0;
  Tensor initial;            // row-major
  bool layout_open = false;  // no kernel has chosen yet
  bool trains = false;       // parameters: has a gradient
  // Shared parameters: the stages that hold a copy, ascending, this one among them; else empty. All
  // hold it row-major, and its gradient too: this stage's share, at the same offset of kGradients.
  std::vector<int> holders;
};

struct StageLayout {
  std::vector<StoredTensor> parameters;
  std::vector<StoredTensor> states;
  std::vector<StoredTensor> constants;
  size_t parameter_bytes = 0;  // of the region: one version
  size_t state_bytes = 0;
  size_t constant_bytes = 0;
};

}  // namespace pipedream
