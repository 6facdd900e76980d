// One recorded training run of the oracle: what to train, how, and what must come out.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/graph/types.h"
#include "common/job/job_spec.h"

namespace pipedream {

struct OracleCase {
  std::string name;  // "pipeline/mlp-s0 stash-n4-m1-sgd"
  std::string model_path;
  std::string data_path;             // safetensors, one tensor per input and label
  std::string expected_path;         // safetensors: losses, param/..., buffer/...
  std::string first_gradients_path;  // safetensors: grad/...; empty: not recorded
  std::vector<std::string> columns;  // inputs and labels
  JobSpec spec;                      // schedule, optimizer, loss, sizes
  bool loss_in_graph = false;
  bool must_differ = false;  // a control that no valid schedule reproduces
  // How far the reference itself moves, relative to its losses, if its initial weights are changed
  // by 5e-7; 0: not recorded. Where it crosses a kink then, rounding may as well.
  double sensitivity = 0;
  std::vector<int> replicas = {1};
  std::vector<int> warmup;     // per stage
  std::vector<int> device_of;  // per stage; empty: each its own
  bool even_cut = false;       // nodes are spread evenly over the stages, whatever the maps say
  std::map<std::string, int> node_stage;  // first output of an ONNX node -> stage
  std::map<std::string, int> parameter_stage;
  std::set<std::string> undetermined;  // parameters whose exact gradient is zero
};

// All cases below `dir` (an oracle folder, or one of its models/, variants/, pipeline/ parts).
absl::StatusOr<std::vector<OracleCase>> ReadOracleCases(const std::string& dir);

}  // namespace pipedream
