#include <atomic>
#include <cstring>
#include <exception>

#include "common/base/status.h"
#include "worker/ops/onednn/families.h"
#include "worker/ops/onednn/primitive_kernel.h"

namespace pipedream {
namespace onednn {
namespace {

class CopyKernel final : public KernelBase {
 public:
  CopyKernel(int threads, size_t bytes) : KernelBase("copy", threads), bytes_(bytes) {}

 private:
  absl::Status Execute(const KernelArguments& arguments) override {
    if (arguments.inputs[0] != arguments.outputs[0] && bytes_ != 0) {
      std::memcpy(arguments.outputs[0], arguments.inputs[0], bytes_);
    }
    return absl::OkStatus();
  }
  size_t bytes_;
};

PreparedKernel Reorder(const TensorSpec& from, const TensorSpec& to, int threads) {
  PreparedKernel prepared;
  prepared.inputs = {from};
  prepared.outputs = {to};
  prepared.in_place = {-1};
  if (SameLayout(from, to)) {
    prepared.kernel = std::make_unique<CopyKernel>(threads, from.bytes);
    return prepared;
  }
  // Grouped weights: the blocked side knows the dims that both share.
  const TensorSpec& blocked = from.layout != nullptr ? from : to;
  const dnnl::memory::dims dims = DescOf(blocked).dims();
  const dnnl::memory::desc source = DescOf(from, dims), destination = DescOf(to, dims);
  dnnl::reorder::primitive_desc pd(Engine(), source, Engine(), destination, UserScratchpad());
  auto kernel = std::make_unique<PrimitiveKernel>("Reorder", threads, dnnl::reorder(pd));
  kernel->Input(DNNL_ARG_FROM, 0, source).Output(DNNL_ARG_TO, 0, destination);
  prepared.scratch_bytes = BindScratchpad(pd, *kernel);
  prepared.kernel = std::move(kernel);
  return prepared;
}

class OneDnnBackend final : public KernelBackend {
 public:
  std::string_view name() const override { return "onednn"; }

  absl::StatusOr<PreparedKernel> Prepare(const Graph& graph, const Node& node,
                                         std::span<const OfferedInput> inputs) const override {
    const PrepareFn prepare = FindPrepare(node.op);
    if (prepare == nullptr) {
      return Unimplemented("the onednn backend has no kernel for operator {} (node '{}')", node.op,
                           node.name);
    }
    if (inputs.size() != node.inputs.size()) {
      return Internal("{} '{}' has {} inputs, {} were offered", node.op, node.name,
                      node.inputs.size(), inputs.size());
    }
    const PrepareRequest request{graph, node, inputs, threads_};
    ThreadScope threads(request.threads);
    try {
      absl::StatusOr<PreparedKernel> prepared = prepare(request);
      if (!prepared.ok()) return Annotate(prepared.status(), request.label());
      return prepared;
    } catch (const std::exception& error) {
      return InvalidArgument("{}: oneDNN cannot serve these shapes: {}", request.label(),
                             error.what());
    }
  }

  absl::StatusOr<PreparedKernel> PrepareReorder(const TensorSpec& from,
                                                const TensorSpec& to) const override {
    if (from.dtype != to.dtype || from.shape != to.shape) {
      return Internal("reorder from {}{} to {}{}: a reorder keeps type and shape",
                      ToString(from.dtype), from.shape.ToString(), ToString(to.dtype),
                      to.shape.ToString());
    }
    ThreadScope threads(threads_);
    try {
      return Reorder(from, to, threads_);
    } catch (const std::exception& error) {
      return Internal("reorder of {}: {}", from.shape.ToString(), error.what());
    }
  }

  void SetThreads(int threads) override { threads_ = threads < 1 ? 1 : threads; }

 private:
  std::atomic<int> threads_ = 1;
};

}  // namespace
}  // namespace onednn

std::unique_ptr<KernelBackend> MakeOneDnnBackend() {
  return std::make_unique<onednn::OneDnnBackend>();
}

}  // namespace pipedream
