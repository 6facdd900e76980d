#include "bench/paced_backend.h"

#include <time.h>

#include <cerrno>
#include <utility>

#include "common/base/status.h"

namespace pipedream {
namespace {

void SleepUntil(const timespec& start, Duration since_start) {
  const int64_t nanos = start.tv_nsec + since_start.count();
  const timespec until{start.tv_sec + nanos / 1'000'000'000, nanos % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

class PacedKernel : public OpKernel {
 public:
  PacedKernel(std::unique_ptr<OpKernel> kernel, Duration pace)
      : kernel_(std::move(kernel)), pace_(pace) {}

  absl::Status Run(const KernelArguments& arguments) override {
    timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    PD_RETURN_IF_ERROR(kernel_->Run(arguments));
    SleepUntil(start, pace_);
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<OpKernel> kernel_;
  const Duration pace_;
};

class PacedBackend : public KernelBackend {
 public:
  PacedBackend(std::unique_ptr<KernelBackend> backend, Duration pace)
      : backend_(std::move(backend)), pace_(pace) {}

  std::string_view name() const override { return backend_->name(); }
  absl::StatusOr<PreparedKernel> Prepare(const Graph& graph, const Node& node,
                                         std::span<const OfferedInput> inputs) const override {
    PD_ASSIGN_OR_RETURN(PreparedKernel prepared, backend_->Prepare(graph, node, inputs));
    if (node.op == "Conv" || node.op == "ConvGradInput" || node.op == "ConvGradWeight")
      prepared.kernel = std::make_unique<PacedKernel>(std::move(prepared.kernel), pace_);
    return prepared;
  }
  absl::StatusOr<PreparedKernel> PrepareReorder(const TensorSpec& from,
                                                const TensorSpec& to) const override {
    return backend_->PrepareReorder(from, to);
  }
  void SetThreads(int threads) override { backend_->SetThreads(threads); }

 private:
  const std::unique_ptr<KernelBackend> backend_;
  const Duration pace_;
};

}  // namespace

std::unique_ptr<KernelBackend> MakePacedBackend(std::unique_ptr<KernelBackend> backend,
                                                Duration pace) {
  return std::make_unique<PacedBackend>(std::move(backend), pace);
}

}  // namespace pipedream
