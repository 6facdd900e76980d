#include "worker/ops/onednn/primitive_kernel.h"

#include "common/base/status.h"

namespace pipedream::onednn {

using dnnl::memory;

PrimitiveKernel::PrimitiveKernel(std::string label, int threads, dnnl::primitive primitive)
    : KernelBase(std::move(label), threads), primitive_(std::move(primitive)), stream_(Engine()) {}

PrimitiveKernel& PrimitiveKernel::Input(int argument, int input, const memory::desc& desc) {
  // oneDNN writes zeros into the padding whenever it is handed a pointer, even an input's. Inputs
  // may be shared and are padded already, so hand them over as bytes; primitives go by their own
  // descriptors.
  const memory::dims bytes = {static_cast<memory::dim>(desc.get_size())};
  Add(argument, Source::kInput, input, 0, PlainDesc(bytes, memory::data_type::u8));
  return *this;
}

PrimitiveKernel& PrimitiveKernel::Output(int argument, int output, const memory::desc& desc) {
  Add(argument, Source::kOutput, output, 0, desc);
  return *this;
}

PrimitiveKernel& PrimitiveKernel::Scratch(int argument, size_t offset, const memory::desc& desc) {
  if (desc.get_size() != 0) Add(argument, Source::kScratch, 0, offset, desc);
  return *this;
}

void PrimitiveKernel::Add(int argument, Source source, int index, size_t offset,
                          const memory::desc& desc) {
  memory object(desc, Engine(), nullptr);
  arguments_.emplace(argument, object);  // shares the object: setting its pointer reaches both
  bindings_.push_back({source, index, offset, object, nullptr});
}

absl::Status PrimitiveKernel::Execute(const KernelArguments& arguments) {
  for (Binding& binding : bindings_) {
    void* pointer = nullptr;
    switch (binding.source) {
      case Source::kInput:
        pointer = const_cast<void*>(arguments.inputs[binding.index]);
        break;
      case Source::kOutput:
        pointer = arguments.outputs[binding.index];
        break;
      case Source::kScratch:
        pointer = static_cast<char*>(arguments.scratch) + binding.offset;
        break;
    }
    if (pointer == nullptr) {
      return Internal("{}: {} {} has no memory", label_,
                      binding.source == Source::kInput ? "input" : "output", binding.index);
    }
    if (pointer == binding.pointer) continue;
    binding.memory.set_data_handle(pointer, stream_);
    binding.pointer = pointer;
  }
  primitive_.execute(stream_, arguments_);
  stream_.wait();
  return absl::OkStatus();
}

}  // namespace pipedream::onednn
