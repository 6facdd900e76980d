// Compiles one program of a stage: messages in, nodes in order, gradients, messages out.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/graph/training_graph.h"
#include "worker/engine/compiled_stage.h"
#include "worker/engine/memory_plan.h"
#include "worker/engine/stage_buffers.h"

namespace pipedream {

class ProgramCompiler {
 public:
  // Borrows all.
  ProgramCompiler(const Graph& graph, const KernelBackend& backend, StageBuffers* buffers);

  // In this order, each once. Gives each value of the messages, and each input, its home.
  void Receive(const std::vector<StageMessage>& messages);
  // The buffer of a row-major value that is filled before the program runs.
  int BindPlain(ValueId id);
  // A node may run again what another program ran. `needed_after`: values that must be there when
  // the program has run. With `parameter_gradients` those that it makes, or finds, end up in
  // kGradients. Errors as CompileStage.
  absl::Status Compile(const std::vector<NodeId>& nodes, const std::vector<ValueId>& needed_after,
                       bool parameter_gradients);
  absl::Status Send(const std::vector<StageMessage>& messages);
  // REQUIRES: the buffers are finished.
  CompiledProgram Finish();

 private:
  struct PendingStep {
    NodeId node = kNoNode;
    std::unique_ptr<OpKernel> kernel;
    std::vector<int> inputs;  // buffers, -1 where absent
    std::vector<int> outputs;
    size_t scratch_bytes = 0;
    std::string signature;
  };
  struct PendingMessage {
    CompiledMessage message;
    std::vector<int> buffers;  // of its items
  };

  int NewBuffer(size_t bytes, int step);
  void ReadAt(int buffer, int step);
  absl::Status CompileNode(NodeId id, int position);
  absl::StatusOr<int> InputBuffer(NodeId node, ValueId value, const TensorSpec& wanted);
  int OutputBuffer(const Node& node, const PreparedKernel& prepared, int output, int position,
                   const std::vector<int>& inputs);
  bool DiesHere(int buffer, int position) const;
  absl::Status FinishGradients();
  std::vector<Lifetime> PlaceTemporaries(size_t* arena_bytes);
  std::vector<CompiledMessage> Finish(std::vector<PendingMessage> messages) const;

  const Graph& graph_;
  const KernelBackend& backend_;
  StageBuffers& buffers_;
  bool parameter_gradients_ = false;
  std::vector<PendingStep> steps_;
  std::vector<int> arena_;  // buffers made for it, whatever their region became
  std::vector<PendingMessage> received_;
  std::vector<PendingMessage> sent_;
  std::map<ValueId, int> last_reader_;   // position in the nodes; after all: needed then
  std::multimap<ValueId, Home> copies_;  // reordered copies made so far
  std::set<int> gradients_done_;         // parameter indices
};

}  // namespace pipedream
