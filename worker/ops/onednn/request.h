// What the operator families share: the request they prepare for, the base of their kernels, and
// helpers for own loops. Knows nothing of oneDNN itself; see layout.h for that.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "worker/ops/op_kernel.h"

// One function compiled for several instruction sets, the best taken when the program loads. Not
// under sanitizers: their runtime is not ready when the choice is made.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(PIPEDREAM_SANITIZED)
#define PD_CLONES __attribute__((noinline, target_clones("avx512f", "avx2", "default")))
#else
#define PD_CLONES __attribute__((noinline))
#endif

namespace pipedream::onednn {

struct PrepareRequest {
  const Graph& graph;
  const Node& node;
  std::span<const OfferedInput> inputs;
  int threads = 1;

  bool has_input(int i) const {
    return i < static_cast<int>(node.inputs.size()) && node.inputs[i] != kNoValue;
  }
  bool has_output(int o) const {
    return o < static_cast<int>(node.outputs.size()) && node.outputs[o] != kNoValue;
  }
  // Does any node read output `o`? A workspace that nobody reads is not made.
  bool is_read(int o) const { return has_output(o) && !graph.consumers(node.outputs[o]).empty(); }
  const Shape& input_shape(int i) const { return graph.value(node.inputs[i]).shape; }
  const Shape& output_shape(int o) const { return graph.value(node.outputs[o]).shape; }
  const TensorSpec& offered(int i) const { return inputs[i].spec; }
  TensorSpec plain_input(int i) const;
  TensorSpec plain_output(int o) const;
  std::string label() const;  // "Conv 'conv1'"
  // A result that reads and writes row-major tensors, shares no memory and needs no scratch.
  PreparedKernel Plain(std::unique_ptr<OpKernel> kernel) const;
};

using PrepareFn = absl::StatusOr<PreparedKernel> (*)(const PrepareRequest& request);

// Sets the calling thread's OpenMP width for its life: oneDNN splits work by it when a primitive is
// made and again when it runs, and both must agree on whichever thread runs it.
class ThreadScope {
 public:
  explicit ThreadScope(int threads);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int wanted_;
  int before_;
};

// Turns exceptions of the libraries below into a Status that names the operator.
class KernelBase : public OpKernel {
 public:
  explicit KernelBase(const PrepareRequest& request)
      : label_(request.label()), threads_(request.threads) {}
  KernelBase(std::string label, int threads) : label_(std::move(label)), threads_(threads) {}
  absl::Status Run(const KernelArguments& arguments) final;

 protected:
  virtual absl::Status Execute(const KernelArguments& arguments) = 0;
  const std::string label_;
  const int threads_;
};

// A kernel from a callable `absl::Status(const KernelArguments&)`.
template <typename F>
class LoopKernel final : public KernelBase {
 public:
  LoopKernel(const PrepareRequest& request, F run) : KernelBase(request), run_(std::move(run)) {}

 private:
  absl::Status Execute(const KernelArguments& arguments) override { return run_(arguments); }
  F run_;
};
template <typename F>
std::unique_ptr<OpKernel> MakeLoop(const PrepareRequest& request, F run) {
  return std::make_unique<LoopKernel<F>>(request, std::move(run));
}

inline const float* FloatIn(const KernelArguments& arguments, int i) {
  return static_cast<const float*>(arguments.inputs[i]);
}
inline float* FloatOut(const KernelArguments& arguments, int o) {
  return static_cast<float*>(arguments.outputs[o]);
}

// Which sample of the data set position `position` of `positions` belongs to, the leading axis
// being the batch; the position itself where nobody said.
int64_t SampleOf(const KernelArguments& arguments, int64_t position, int64_t positions);

// body(begin, end) over [0, n) in chunks of `grain`: the same chunks for any number of threads.
template <typename F>
void ParallelFor(int threads, int64_t n, int64_t grain, const F& body) {
  grain = std::max<int64_t>(grain, 1);
  if (threads <= 1 || n <= grain) {
    for (int64_t begin = 0; begin < n; begin += grain) body(begin, std::min(n, begin + grain));
    return;
  }
  const int64_t chunks = (n + grain - 1) / grain;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t c = 0; c < chunks; ++c) body(c * grain, std::min(n, (c + 1) * grain));
}
inline constexpr int64_t kElementGrain = 16384;

// kUnimplemented if an input is of another type than float32.
absl::Status RequireFloat(const PrepareRequest& request);

}  // namespace pipedream::onednn
