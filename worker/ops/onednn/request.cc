#include "worker/ops/onednn/request.h"

#include <omp.h>

#include <exception>

#include "common/base/status.h"

namespace pipedream::onednn {

TensorSpec PrepareRequest::plain_input(int i) const {
  if (!has_input(i)) return {};
  const Value& value = graph.value(node.inputs[i]);
  return TensorSpec::Plain(value.dtype, value.shape);
}

TensorSpec PrepareRequest::plain_output(int o) const {
  if (!has_output(o)) return {};
  const Value& value = graph.value(node.outputs[o]);
  return TensorSpec::Plain(value.dtype, value.shape);
}

std::string PrepareRequest::label() const { return fmt::format("{} '{}'", node.op, node.name); }

PreparedKernel PrepareRequest::Plain(std::unique_ptr<OpKernel> kernel) const {
  PreparedKernel prepared;
  prepared.kernel = std::move(kernel);
  for (size_t i = 0; i < node.inputs.size(); ++i) prepared.inputs.push_back(plain_input(i));
  for (size_t o = 0; o < node.outputs.size(); ++o) prepared.outputs.push_back(plain_output(o));
  prepared.in_place.assign(node.outputs.size(), -1);
  return prepared;
}

ThreadScope::ThreadScope(int threads) : wanted_(threads), before_(omp_get_max_threads()) {
  if (before_ != wanted_) omp_set_num_threads(wanted_);
}
ThreadScope::~ThreadScope() {
  if (before_ != wanted_) omp_set_num_threads(before_);
}

absl::Status KernelBase::Run(const KernelArguments& arguments) {
  ThreadScope threads(threads_);
  try {
    return Execute(arguments);
  } catch (const std::exception& error) {
    return Internal("{}: {}", label_, error.what());
  }
}

int64_t SampleOf(const KernelArguments& arguments, int64_t position, int64_t positions) {
  if (arguments.context == nullptr || arguments.context->sample_ids.empty()) return position;
  const std::span<const int64_t> ids = arguments.context->sample_ids;
  const auto samples = static_cast<int64_t>(ids.size());
  return ids[position / std::max<int64_t>(1, positions / samples) % samples];
}

absl::Status RequireFloat(const PrepareRequest& request) {
  for (size_t i = 0; i < request.node.inputs.size(); ++i) {
    if (!request.has_input(i)) continue;
    const DataType dtype = request.graph.value(request.node.inputs[i]).dtype;
    if (dtype != DataType::kFloat32) {
      return Unimplemented("input {} is {}; this kernel takes float32 only", i, ToString(dtype));
    }
  }
  return absl::OkStatus();
}

}  // namespace pipedream::onednn
