// One operator on one device kind, prepared once for its shapes. Preparing chooses algorithm and
// layouts and may be slow; running allocates nothing.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/graph/graph.h"

namespace pipedream {

// How a tensor lies in memory; its meaning belongs to the backend that made it. Null is plain
// row-major. Layouts compare by content through `key`.
struct LayoutDescription {
  virtual ~LayoutDescription() = default;
  std::string key;   // equal keys, equal layouts
};
using Layout = std::shared_ptr<const LayoutDescription>;

// A tensor as kernels see it. `bytes` covers padding and is known even for opaque types.
struct TensorSpec {
  DataType dtype = DataType::kFloat32;
  Shape shape;
  Layout layout;      // null: row-major
  size_t bytes = 0;

  static TensorSpec Plain(DataType dtype, const Shape& shape);
};
bool SameLayout(const TensorSpec& a, const TensorSpec& b);

// What a run of the kernels may depend on besides tensors: Dropout's counters.
struct RunContext {
  uint64_t seed = 0;
  int64_t step = 0;                       // minibatch number over the run
  std::span<const int64_t> sample_ids;    // dataset rows of the microbatch, in order
};

struct KernelArguments {
  std::span<const void* const> inputs;    // null where an optional input is absent
  std::span<void* const> outputs;         // null where an optional output is not wanted
  void* scratch = nullptr;                // at least PreparedKernel::scratch_bytes, 64-byte aligned
  const RunContext* context = nullptr;
};

// Threads: one Run at a time per kernel; any thread.
class OpKernel {
 public:
  virtual ~OpKernel() = default;
  virtual absl::Status Run(const KernelArguments& arguments) = 0;
};

struct PreparedKernel {
  std::unique_ptr<OpKernel> kernel;
  // What the kernel reads and writes, per input and output of the node. An input spec that differs
  // in layout from what was offered asks the caller for a reorder in front.
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  size_t scratch_bytes = 0;
  // in_place[o] = i: output o may be given the memory of input i (same bytes); -1: it may not.
  std::vector<int> in_place;
  // The node only renames its input (Reshape of a row-major tensor): output 0 may always share
  // input 0's memory and running it then does nothing.
  bool alias = false;
};

struct OfferedInput {
  TensorSpec spec;        // as the tensor lies now
  bool any_layout = false;  // a parameter whose storage layout is still open: choose what suits best
};

// The kernels of one device kind. Threads: const, any thread.
class KernelBackend {
 public:
  virtual ~KernelBackend() = default;
  virtual std::string_view name() const = 0;   // "onednn"
  // What a kernel computes depends on the shapes only, to the bit, not on the layouts that are
  // offered: those change with the cut of the network. kUnimplemented names an operator that this
  // backend lacks; kInvalidArgument a shape that it cannot serve.
  virtual absl::StatusOr<PreparedKernel> Prepare(const Graph& graph, const Node& node,
                                                 std::span<const OfferedInput> inputs) const = 0;
  // Copies between two layouts of one shape and type.
  virtual absl::StatusOr<PreparedKernel> PrepareReorder(const TensorSpec& from,
                                                        const TensorSpec& to) const = 0;
  // Threads that one Run may use; set before preparing.
  virtual void SetThreads(int threads) = 0;
};

// CPU kernels on oneDNN 2.6 and own loops (ops/onednn).
std::unique_ptr<KernelBackend> MakeOneDnnBackend();

}  // namespace pipedream
