// A stage made ready to run at one microbatch size: prepared kernels with every tensor's place.
#pragma once

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
  // Filled anew for every run; here so that running allocates nothing.
  std::vector<const void*> input_pointers;
  std::vector<void*> output_pointers;
};

struct CompiledProgram {
  std::vector<CompiledStep> steps;
  size_t arena_bytes = 0;    // temporaries; scratch lies behind them
  size_t scratch_bytes = 0;  // the largest of its steps
};

// A tensor in a message: messages hold row-major tensors one after another, 64-byte aligned.
struct MessageItem {
  ValueId value;
  size_t message_offset = 0;
  size_t bytes = 0;  // row-major
  Place place;
  std::unique_ptr<OpKernel> reorder;  // between row-major and the place's layout; null: same
};

struct LoadItem {
  std::string column;  // dataset column: the model input's or label's name
  DataType dtype = DataType::kFloat32;
  Place place;
};

// Memory kept from forward to backward; values that share it are counted once.
struct SavedTensor {
  ValueId value;
  size_t bytes = 0;
};

struct CompiledStage {
  int64_t samples = 0;  // microbatch size
  CompiledProgram forward;
  CompiledProgram backward;  // empty in the evaluation form
  std::vector<LoadItem> loads;
  std::vector<MessageItem> activations_in;
  std::vector<MessageItem> activations_out;
  std::vector<MessageItem> gradients_in;
  std::vector<MessageItem> gradients_out;
  size_t activation_in_bytes = 0;  // of the whole message
  size_t activation_out_bytes = 0;
  size_t gradient_in_bytes = 0;
  size_t gradient_out_bytes = 0;
  std::vector<SavedTensor> saved;
  size_t slot_bytes = 0;       // one slab
  Place loss;                  // float32, on the stage that holds it
  Place correct;               // int64, if the loss counts
  int64_t loss_positions = 0;  // predictions that `correct` is out of, per microbatch
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
