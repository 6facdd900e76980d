// LRN over row-major tensors for any window: y = x * d^-beta, d = bias + alpha/size * (sum of
// squares of channels [c - (size-1)/2, c + size/2]). No workspace: the gradient computes d anew.
#include <cmath>

#include "common/base/status.h"
#include "worker/ops/onednn/families.h"

namespace pipedream::onednn {
namespace {

struct Lrn {
  int64_t samples, channels, plane;
  int64_t before, after;  // neighbours in the window
  float scale;            // alpha / size
  float beta, bias;
};

Lrn LrnOf(const Node& node, const Shape& x) {
  const int64_t size = node.attributes.Int("size");
  return {x[0],
          x[1],
          x.elements() / (x[0] * x[1]),
          (size - 1) / 2,
          size / 2,
          static_cast<float>(node.attributes.Float("alpha") / static_cast<double>(size)),
          static_cast<float>(node.attributes.Float("beta")),
          static_cast<float>(node.attributes.Float("bias"))};
}

// d of channel `c` at a position; x points to the sample's channel 0 at that position.
float Denominator(const Lrn& lrn, const float* x, int64_t c) {
  const int64_t first = std::max<int64_t>(0, c - lrn.before);
  const int64_t last = std::min(lrn.channels - 1, c + lrn.after);
  float sum = 0;
  for (int64_t i = first; i <= last; ++i) sum += x[i * lrn.plane] * x[i * lrn.plane];
  return lrn.bias + lrn.scale * sum;
}

// f(offset of channel 0) for every position of every sample.
template <typename F>
void ForPositions(const Lrn& lrn, int threads, const F& f) {
  ParallelFor(threads, lrn.samples * lrn.plane, kElementGrain / lrn.channels,
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  f(i / lrn.plane * lrn.channels * lrn.plane + i % lrn.plane);
                }
              });
}

}  // namespace

absl::StatusOr<PreparedKernel> PrepareLrnLoops(const PrepareRequest& request) {
  auto run = [lrn = LrnOf(request.node, request.input_shape(0)),
              threads = request.threads](const KernelArguments& args) {
    ForPositions(lrn, threads, [&](int64_t at) {
      const float* x = FloatIn(args, 0) + at;
      float* y = FloatOut(args, 0) + at;
      for (int64_t c = 0; c < lrn.channels; ++c) {
        y[c * lrn.plane] = x[c * lrn.plane] * std::pow(Denominator(lrn, x, c), -lrn.beta);
      }
    });
    return absl::OkStatus();
  };
  return request.Plain(MakeLoop(request, run));
}

// dx_c = dy_c d_c^-beta - 2 alpha/size beta x_c * sum of dy_i x_i d_i^(-beta-1) over the channels i
// whose window holds c.
absl::StatusOr<PreparedKernel> PrepareLrnGradLoops(const PrepareRequest& request) {
  auto run = [lrn = LrnOf(request.node, request.input_shape(1)),
              threads = request.threads](const KernelArguments& args) {
    ForPositions(lrn, threads, [&](int64_t at) {
      const float *dy = FloatIn(args, 0) + at, *x = FloatIn(args, 1) + at;
      float* dx = FloatOut(args, 0) + at;
      for (int64_t c = 0; c < lrn.channels; ++c) {
        const int64_t first = std::max<int64_t>(0, c - lrn.after);
        const int64_t last = std::min(lrn.channels - 1, c + lrn.before);
        float sum = 0;
        for (int64_t i = first; i <= last; ++i) {
          sum += dy[i * lrn.plane] * x[i * lrn.plane] *
                 std::pow(Denominator(lrn, x, i), -lrn.beta - 1);
        }
        dx[c * lrn.plane] = dy[c * lrn.plane] * std::pow(Denominator(lrn, x, c), -lrn.beta) -
                            2 * lrn.scale * lrn.beta * x[c * lrn.plane] * sum;
      }
    });
    return absl::OkStatus();
  };
  PreparedKernel prepared = request.Plain(MakeLoop(request, run));
  prepared.inputs[2] = request.offered(2);
  return prepared;
}

}  // namespace pipedream::onednn
