// Pools over row-major tensors with any padding and dilation: what oneDNN cannot do.
#include <limits>

#include "common/base/status.h"
#include "worker/ops/onednn/families.h"
#include "worker/ops/onednn/layout.h"
#include "worker/ops/onednn/pool_window.h"

namespace pipedream::onednn {

PoolWindow WindowOf(const Node& node, const Shape& x, const Shape& y) {
  PoolWindow window;
  window.planes = x[0] * x[1];
  const int k = x.rank() - 2;
  const auto kernel = node.attributes.Ints("kernel"), strides = node.attributes.Ints("strides");
  const auto pads = node.attributes.Ints("pads"), dilations = node.attributes.Ints("dilations");
  for (int i = 0; i < k; ++i) {
    const int at = i + 3 - k;
    window.x[at] = x[i + 2];
    window.y[at] = y[i + 2];
    window.kernel[at] = kernel[i];
    if (!strides.empty()) window.strides[at] = strides[i];
    if (!dilations.empty()) window.dilations[at] = dilations[i];
    if (!pads.empty()) {
      window.begin[at] = pads[i];
      window.end[at] = pads[i + k];
    }
  }
  window.count_include_pad = node.attributes.Int("count_include_pad") != 0;
  return window;
}

bool OneDnnCanPool(const PoolWindow& window) {
  for (int i = 0; i < 3; ++i) {
    if (window.dilations[i] != 1) return false;
    if (window.begin[i] >= window.kernel[i] || window.end[i] >= window.kernel[i]) return false;
  }
  return true;
}

namespace {

// First and last + 1 tap of axis `i` that lie inside x, for output position `o`.
struct Taps {
  int64_t first, last, start;  // start: x index of tap 0
};
Taps TapsOf(const PoolWindow& w, int i, int64_t o) {
  Taps taps{0, w.kernel[i], o * w.strides[i] - w.begin[i]};
  while (taps.first < taps.last && taps.start + taps.first * w.dilations[i] < 0) ++taps.first;
  while (taps.last > taps.first && taps.start + (taps.last - 1) * w.dilations[i] >= w.x[i]) {
    --taps.last;
  }
  return taps;
}

// f(output offset, taps along each axis) for every window of a plane.
template <typename F>
void ForWindows(const PoolWindow& w, const F& f) {
  int64_t out = 0;
  for (int64_t d = 0; d < w.y[0]; ++d) {
    const Taps td = TapsOf(w, 0, d);
    for (int64_t h = 0; h < w.y[1]; ++h) {
      const Taps th = TapsOf(w, 1, h);
      for (int64_t c = 0; c < w.y[2]; ++c, ++out) f(out, td, th, TapsOf(w, 2, c));
    }
  }
}

// f(x offset) for every tap inside.
template <typename F>
void ForTaps(const PoolWindow& w, const Taps& td, const Taps& th, const Taps& tw, const F& f) {
  for (int64_t d = td.first; d < td.last; ++d) {
    for (int64_t h = th.first; h < th.last; ++h) {
      const int64_t row =
          ((td.start + d * w.dilations[0]) * w.x[1] + (th.start + h * w.dilations[1])) * w.x[2];
      for (int64_t c = tw.first; c < tw.last; ++c) f(row + tw.start + c * w.dilations[2]);
    }
  }
}

template <typename F>
void ForPlanes(const PoolWindow& w, int threads, const F& f) {
  ParallelFor(threads, w.planes, std::max<int64_t>(1, kElementGrain / (w.x_elements() + 1)),
              [&](int64_t begin, int64_t end) {
                for (int64_t p = begin; p < end; ++p) f(p);
              });
}

// What the average divides by.
float DivisorOf(const PoolWindow& w, const Taps& td, const Taps& th, const Taps& tw) {
  const int64_t all = w.kernel[0] * w.kernel[1] * w.kernel[2];
  const int64_t inside = (td.last - td.first) * (th.last - th.first) * (tw.last - tw.first);
  return static_cast<float>(w.count_include_pad ? all : std::max<int64_t>(1, inside));
}

}  // namespace

absl::StatusOr<PreparedKernel> PrepareMaxPoolLoops(const PrepareRequest& request) {
  const PoolWindow w = WindowOf(request.node, request.input_shape(0), request.output_shape(0));
  const bool keep = request.is_read(1);
  auto run = [w, keep, threads = request.threads](const KernelArguments& args) {
    ForPlanes(w, threads, [&](int64_t plane) {
      const float* x = FloatIn(args, 0) + plane * w.x_elements();
      float* y = FloatOut(args, 0) + plane * w.y_elements();
      auto* offsets =
          keep ? static_cast<int32_t*>(args.outputs[1]) + plane * w.y_elements() : nullptr;
      ForWindows(w, [&](int64_t out, const Taps& td, const Taps& th, const Taps& tw) {
        float best = -std::numeric_limits<float>::infinity();
        int64_t at = -1;
        ForTaps(w, td, th, tw, [&](int64_t i) {
          // NaN wins, so that it is not lost; the first of equals wins.
          if (at >= 0 && !(x[i] > best || x[i] != x[i])) return;
          best = x[i];
          at = i;
        });
        y[out] = best;
        if (offsets != nullptr) offsets[out] = static_cast<int32_t>(at);
      });
    });
    return absl::OkStatus();
  };
  PreparedKernel prepared = request.Plain(MakeLoop(request, run));
  if (keep) {
    auto layout = std::make_shared<WorkspaceLayout>();
    layout->key = kLoopWorkspaceKey;
    prepared.outputs[1].layout = layout;
    prepared.outputs[1].bytes =
        static_cast<size_t>(request.output_shape(0).elements()) * sizeof(int32_t);
  }
  return prepared;
}

absl::StatusOr<PreparedKernel> PrepareMaxPoolGradLoops(const PrepareRequest& request) {
  const PoolWindow w = WindowOf(request.node, request.output_shape(0), request.input_shape(0));
  auto run = [w, threads = request.threads](const KernelArguments& args) {
    ForPlanes(w, threads, [&](int64_t plane) {
      const float* dy = FloatIn(args, 0) + plane * w.y_elements();
      const auto* offsets = static_cast<const int32_t*>(args.inputs[1]) + plane * w.y_elements();
      float* dx = FloatOut(args, 0) + plane * w.x_elements();
      std::fill(dx, dx + w.x_elements(), 0.0f);
      for (int64_t o = 0; o < w.y_elements(); ++o) {
        if (offsets[o] >= 0) dx[offsets[o]] += dy[o];
      }
    });
    return absl::OkStatus();
  };
  PreparedKernel prepared = request.Plain(MakeLoop(request, run));
  prepared.inputs[1] = request.offered(1);
  return prepared;
}

absl::StatusOr<PreparedKernel> PrepareAveragePoolLoops(const PrepareRequest& request) {
  const PoolWindow w = WindowOf(request.node, request.input_shape(0), request.output_shape(0));
  auto run = [w, threads = request.threads](const KernelArguments& args) {
    ForPlanes(w, threads, [&](int64_t plane) {
      const float* x = FloatIn(args, 0) + plane * w.x_elements();
      float* y = FloatOut(args, 0) + plane * w.y_elements();
      ForWindows(w, [&](int64_t out, const Taps& td, const Taps& th, const Taps& tw) {
        float sum = 0;
        ForTaps(w, td, th, tw, [&](int64_t i) { sum += x[i]; });
        y[out] = sum / DivisorOf(w, td, th, tw);
      });
    });
    return absl::OkStatus();
  };
  return request.Plain(MakeLoop(request, run));
}

absl::StatusOr<PreparedKernel> PrepareAveragePoolGradLoops(const PrepareRequest& request) {
  const PoolWindow w = WindowOf(request.node, request.output_shape(0), request.input_shape(0));
  auto run = [w, threads = request.threads](const KernelArguments& args) {
    ForPlanes(w, threads, [&](int64_t plane) {
      const float* dy = FloatIn(args, 0) + plane * w.y_elements();
      float* dx = FloatOut(args, 0) + plane * w.x_elements();
      std::fill(dx, dx + w.x_elements(), 0.0f);
      ForWindows(w, [&](int64_t out, const Taps& td, const Taps& th, const Taps& tw) {
        const float share = dy[out] / DivisorOf(w, td, th, tw);
        ForTaps(w, td, th, tw, [&](int64_t i) { dx[i] += share; });
      });
    });
    return absl::OkStatus();
  };
  return request.Plain(MakeLoop(request, run));
}

}  // namespace pipedream::onednn
