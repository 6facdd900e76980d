// Dropout and its gradient are one kernel: y = mask * x / (1 - ratio). The mask of an element is a
// function of (seed, key, step, sample id, index within the sample), so backward makes the same one
// and neither batch position nor stage matters: element e of a sample of E elements is kept if
//   UniformFloat(Philox(seed, stream, id * ceil(E / 4) + e / 4)[e % 4]) >= ratio,
// where stream is the first 64 bits of Philox(seed, key, step).
#include "common/base/random.h"
#include "common/base/status.h"
#include "worker/ops/onednn/families.h"

namespace pipedream::onednn {

absl::StatusOr<PreparedKernel> PrepareDropout(const PrepareRequest& request) {
  PD_RETURN_IF_ERROR(RequireFloat(request));
  const Shape& x = request.input_shape(0);
  const double ratio = request.node.attributes.Float("ratio");
  const auto key = static_cast<uint64_t>(request.node.attributes.Int("key"));
  const float scale = static_cast<float>(1 / (1 - ratio));
  const int64_t elements = x.elements();
  auto run = [=, label = request.label(),
              threads = request.threads](const KernelArguments& args) -> absl::Status {
    const int64_t samples =
        args.context == nullptr ? 0 : static_cast<int64_t>(args.context->sample_ids.size());
    if (samples == 0 || elements % samples != 0) {
      return Internal("{}: {} elements cannot belong to {} samples", label, elements, samples);
    }
    const int64_t per_sample = elements / samples;
    const int64_t blocks = (per_sample + 3) / 4;
    const uint64_t seed = args.context->seed;
    const auto mixed = Philox(seed, key, static_cast<uint64_t>(args.context->step));
    const uint64_t stream = mixed[0] | uint64_t{mixed[1]} << 32;
    const float* input = FloatIn(args, 0);
    float* output = FloatOut(args, 0);
    ParallelFor(threads, samples * blocks, kElementGrain / 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t sample = i / blocks, block = i % blocks;
        const auto id = static_cast<uint64_t>(args.context->sample_ids[sample]);
        const auto bits =
            Philox(seed, stream, id * static_cast<uint64_t>(blocks) + static_cast<uint64_t>(block));
        const int64_t at = sample * per_sample + block * 4;
        const int64_t n = std::min<int64_t>(4, per_sample - block * 4);
        for (int64_t j = 0; j < n; ++j) {
          const bool kept = UniformFloat(bits[j]) >= static_cast<float>(ratio);
          output[at + j] = kept ? input[at + j] * scale : 0.0f;
        }
      }
    });
    return absl::OkStatus();
  };
  PreparedKernel prepared = request.Plain(MakeLoop(request, run));
  prepared.in_place[0] = 0;
  return prepared;
}

}  // namespace pipedream::onednn
