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
  int64_t saved_bytes = 0;           // kept from forward to backward because of this node
  int64_t workspace_bytes = 0;       // temporaries while it runs
  // The cut right after this node (in graph order):
  bool legal_cut = true;             // false where it would part the readers of one parameter
  int64_t cut_forward_bytes = 0;     // sent to the next stage per microbatch
  int64_t cut_gradient_bytes = 0;    // sent back
  bool operator==(const NodeProfile&) const = default;

  double compute_s() const { return forward_s + input_gradient_s + weight_gradient_s + optimizer_s; }
};

struct Profile {
  std::string model_hash;
  std::string device_kind;           // "cpu: AMD EPYC, 1 thread, oneDNN 2.6.3"
  int64_t microbatch_size = 0;
  int optimizer_state_tensors = 0;   // parameter-sized tensors the optimizer keeps
  double step_s = 0;                 // measured whole step on one device, forward to update
  std::vector<NodeProfile> nodes;    // graph order
  bool operator==(const Profile&) const = default;
};

}  // namespace pipedream
