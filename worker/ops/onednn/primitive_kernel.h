// A kernel that is one oneDNN primitive: memory objects and the argument map are made when it is
// prepared; a run only sets their pointers.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <memory>
#include <unordered_map>
#include <vector>

#include "worker/ops/onednn/layout.h"

namespace pipedream::onednn {

class PrimitiveKernel final : public KernelBase {
 public:
  PrimitiveKernel(std::string label, int threads, dnnl::primitive primitive);
  PrimitiveKernel(const PrepareRequest& request, dnnl::primitive primitive)
      : PrimitiveKernel(request.label(), request.threads, std::move(primitive)) {}

  // Which of the node's tensors is oneDNN's argument `argument`. An output that is null at run time
  // is an error.
  PrimitiveKernel& Input(int argument, int input, const dnnl::memory::desc& desc);
  PrimitiveKernel& Output(int argument, int output, const dnnl::memory::desc& desc);
  // At `offset` bytes into the scratch memory.
  PrimitiveKernel& Scratch(int argument, size_t offset, const dnnl::memory::desc& desc);

 private:
  enum class Source { kInput, kOutput, kScratch };
  struct Binding {
    Source source;
    int index;
    size_t offset;
    dnnl::memory memory;
    void* pointer;  // what `memory` points to now
  };
  absl::Status Execute(const KernelArguments& arguments) override;
  void Add(int argument, Source source, int index, size_t offset, const dnnl::memory::desc& desc);

  dnnl::primitive primitive_;
  dnnl::stream stream_;
  std::vector<Binding> bindings_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

// Binds the primitive's scratchpad and says how much scratch it needs.
template <typename PrimitiveDesc>
size_t BindScratchpad(const PrimitiveDesc& pd, PrimitiveKernel& kernel) {
  kernel.Scratch(DNNL_ARG_SCRATCHPAD, 0, pd.scratchpad_desc());
  return pd.scratchpad_desc().get_size();
}

}  // namespace pipedream::onednn
