// What a model costs, node by node, on one kind of device at one microbatch size. Measured by a
// worker on the kernels that training uses, scaled so that the sum matches a real step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pipedream {

// One forward node (with its gradient nodes); times in seconds, sizes in bytes, per microbatch.
struct NodeProfile {
  std::string name;                  // Node::name in the forward graph
  std::string op;
  double forward_s = 0;
  double input_gradient_s = 0;
  double weight_gradient_s = 0;
  double optimizer_s = 0;            // update of its parameters
  int64_t parameter_bytes = 0;
  int64_t state_bytes = 0;           // running statistics
  int64_t output_bytes = 0;
  // Kept from forward to backward because of this node, but for what `tensors` says.
  int64_t saved_bytes = 0;
  int64_t workspace_bytes = 0;       // temporaries while it runs
  int64_t constant_bytes = 0;        // constants and parameters that do not train
  bool operator==(const NodeProfile&) const = default;

  double compute_s() const { return forward_s + input_gradient_s + weight_gradient_s + optimizer_s; }
};

// What goes from one stage to another if a cut has one of the `early` nodes before it and one of
// the `late` ones behind it: made by the early one and read by the late ones, or, a gradient, made
// by late ones (in parts, which are summed) and read by early ones.
struct ProfileTensor {
  std::vector<int> early;  // ascending; empty: a network input, made before all nodes
  std::vector<int> late;   // ascending, at least one
  int64_t bytes = 0;       // per microbatch
  bool gradient = false;
  // Nodes whose backward pass reads it (of a forward tensor): a stage that has one of them keeps
  // it, wherever it was made. Ascending, of early and late.
  std::vector<int> kept_by;
  int64_t kept_bytes = 0;  // by each of those stages, per microbatch
  bool operator==(const ProfileTensor&) const = default;
};

struct Profile {
  std::string model_hash;
  std::string device_kind;           // "cpu: AMD EPYC, 1 thread, oneDNN 2.6.3"
  int64_t microbatch_size = 0;
  int optimizer_state_tensors = 0;   // parameter-sized tensors the optimizer keeps
  double step_s = 0;                 // measured whole step on one device, forward to update
  std::vector<NodeProfile> nodes;    // graph order: inputs of a node come from earlier ones
  std::vector<ProfileTensor> tensors;
  // Nodes that read one parameter; only some schedules can part them.
  std::vector<std::vector<int>> ties;
  // Of the worker that was measured, in floating-point operations per second; 0: not known.
  // Comparable between workers of the kind.
  double device_speed = 0;
  bool operator==(const Profile&) const = default;
};

}  // namespace pipedream
