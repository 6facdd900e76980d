#include "worker/engine/relayout.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "common/base/status.h"
#include "worker/engine/memory_plan.h"

namespace pipedream {

absl::Status Relayout(const KernelBackend& backend, const TensorSpec& from, const TensorSpec& to,
                      const void* source, void* target) {
  if (SameLayout(from, to)) {
    std::memcpy(target, source, from.bytes);
    return absl::OkStatus();
  }
  PD_ASSIGN_OR_RETURN(PreparedKernel reorder, backend.PrepareReorder(from, to));
  std::vector<std::byte> scratch(reorder.scratch_bytes + kBufferAlignment);
  const size_t address = reinterpret_cast<uintptr_t>(scratch.data());
  const void* inputs[] = {source};
  void* outputs[] = {target};
  return reorder.kernel->Run(
      {inputs, outputs, scratch.data() + (AlignUp(address) - address), nullptr});
}

}  // namespace pipedream
