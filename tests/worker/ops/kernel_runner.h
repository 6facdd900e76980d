// Runs a graph node by node on a kernel backend as an engine would, checking the contract on the
// way: inputs stay as they were, nothing is written beyond a tensor, padding stays zero, poisoned
// outputs and scratch do not show in results.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/graph/graph.h"
#include "tests/support/status_matchers.h"
#include "worker/ops/op_kernel.h"

namespace pipedream {

// 64-byte aligned bytes with a guard behind them.
class Buffer {
 public:
  Buffer(size_t bytes, float poison) : bytes_(bytes) {
    const size_t rounded = (bytes + kGuard + 63) / 64 * 64;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(64, rounded)));
    Poison(poison);
    std::memset(data_.get() + bytes, 0x5A, kGuard);
  }
  void Poison(float value) {
    for (size_t i = 0; i + 4 <= bytes_; i += 4) std::memcpy(data_.get() + i, &value, 4);
  }
  void* data() { return data_.get(); }
  size_t bytes() const { return bytes_; }
  bool GuardIntact() const {
    for (size_t i = 0; i < kGuard; ++i) {
      if (data_.get()[bytes_ + i] != std::byte{0x5A}) return false;
    }
    return true;
  }
  bool SameBytes(const Buffer& other) const {
    return bytes_ == other.bytes_ && std::memcmp(data_.get(), other.data_.get(), bytes_) == 0;
  }
  std::shared_ptr<Buffer> Clone() const {
    auto copy = std::make_shared<Buffer>(bytes_, 0.0f);
    if (bytes_ != 0) std::memcpy(copy->data(), data_.get(), bytes_);
    return copy;
  }

 private:
  static constexpr size_t kGuard = 64;
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  size_t bytes_;
  std::unique_ptr<std::byte, Free> data_;
};

struct Placed {
  TensorSpec spec;
  std::shared_ptr<Buffer> buffer;
};

struct RunOptions {
  float poison = 0;
  bool in_place = false;    // use PreparedKernel::in_place where it allows
  bool any_layout = false;  // parameters come in whatever layout their first reader wants
  // How a graph input is offered; null: row-major.
  std::function<TensorSpec(const Value&)> input_layout;
  const RunContext* context = nullptr;
};

class KernelRunner {
 public:
  KernelRunner(const KernelBackend& backend, const Graph& graph, RunOptions options)
      : backend_(backend), graph_(graph), options_(std::move(options)) {}

  // Bytes of a graph input, parameter or state, row-major.
  void Give(ValueId id, const void* data) {
    const Value& value = graph_.value(id);
    Placed placed{TensorSpec::Plain(value.dtype, value.shape), nullptr};
    placed.buffer = std::make_shared<Buffer>(placed.spec.bytes, options_.poison);
    if (placed.spec.bytes != 0) std::memcpy(placed.buffer->data(), data, placed.spec.bytes);
    values_[id] = placed;
    if (options_.input_layout != nullptr && value.kind == ValueKind::kInput) {
      values_[id] = Reordered(placed, options_.input_layout(value));
    }
  }

  absl::Status Run() {
    for (const Node& node : graph_.nodes()) PD_RETURN_IF_ERROR(RunNode(node));
    return absl::OkStatus();
  }

  const Placed& placed(ValueId id) const { return values_.at(id); }
  // Row-major copy of a value.
  template <typename T>
  std::vector<T> Read(ValueId id) {
    const Placed plain = Reordered(values_.at(id), Plain(values_.at(id).spec));
    std::vector<T> out(plain.spec.bytes / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), plain.buffer->data(), plain.spec.bytes);
    return out;
  }
  int reorders() const { return reorders_; }

 private:
  static TensorSpec Plain(const TensorSpec& spec) {
    return TensorSpec::Plain(spec.dtype, spec.shape);
  }

  Placed Reordered(const Placed& from, const TensorSpec& to) {
    if (SameLayout(from.spec, to)) return from;
    absl::StatusOr<PreparedKernel> reorder = backend_.PrepareReorder(from.spec, to);
    EXPECT_OK(reorder);
    if (!reorder.ok()) return from;
    Placed result{to, std::make_shared<Buffer>(to.bytes, options_.poison)};
    Buffer scratch(reorder->scratch_bytes, options_.poison);
    const void* input = from.buffer->data();
    void* output = result.buffer->data();
    EXPECT_OK(reorder->kernel->Run({{&input, 1}, {&output, 1}, scratch.data(), nullptr}));
    EXPECT_TRUE(result.buffer->GuardIntact());
    ++reorders_;
    return result;
  }

  absl::Status RunNode(const Node& node) {
    std::vector<OfferedInput> offered(node.inputs.size());
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue) continue;
      offered[i].spec = values_.at(node.inputs[i]).spec;
      offered[i].any_layout =
          options_.any_layout && graph_.value(node.inputs[i]).kind == ValueKind::kParameter;
    }
    PD_ASSIGN_OR_RETURN(PreparedKernel prepared, backend_.Prepare(graph_, node, offered));
    EXPECT_EQ(prepared.inputs.size(), node.inputs.size());
    EXPECT_EQ(prepared.outputs.size(), node.outputs.size());
    EXPECT_EQ(prepared.in_place.size(), node.outputs.size());

    std::vector<Placed> inputs(node.inputs.size());
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoValue) continue;
      Placed& value = values_.at(node.inputs[i]);
      inputs[i] = Reordered(value, prepared.inputs[i]);
      if (offered[i].any_layout) value = inputs[i];
    }
    std::vector<Placed> outputs(node.outputs.size());
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] == kNoValue) continue;
      outputs[o] = {prepared.outputs[o], nullptr};
      const int shared = prepared.in_place[o];
      if (options_.in_place && shared >= 0) {
        EXPECT_EQ(inputs[shared].spec.bytes, outputs[o].spec.bytes) << node.op;
        // The node owns a private copy, so that other readers keep theirs.
        inputs[shared].buffer = inputs[shared].buffer->Clone();
        outputs[o].buffer = inputs[shared].buffer;
      } else {
        outputs[o].buffer = std::make_shared<Buffer>(outputs[o].spec.bytes, options_.poison);
      }
    }
    PD_RETURN_IF_ERROR(Call(node, prepared, inputs, outputs));
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] == kNoValue) continue;
      CheckPadding(node, outputs[o]);
      values_[node.outputs[o]] = outputs[o];
    }
    return absl::OkStatus();
  }

  absl::Status Call(const Node& node, PreparedKernel& prepared, std::vector<Placed>& inputs,
                    std::vector<Placed>& outputs) {
    std::vector<const void*> in;
    std::vector<void*> out;
    std::vector<std::shared_ptr<Buffer>> before;
    for (const Placed& p : inputs) {
      in.push_back(p.buffer == nullptr ? nullptr : p.buffer->data());
      before.push_back(p.buffer == nullptr ? nullptr : p.buffer->Clone());
    }
    for (const Placed& p : outputs) out.push_back(p.buffer == nullptr ? nullptr : p.buffer->data());
    Buffer scratch(prepared.scratch_bytes, options_.poison);
    PD_RETURN_IF_ERROR(prepared.kernel->Run({in, out, scratch.data(), options_.context}));
    EXPECT_TRUE(scratch.GuardIntact()) << node.op << " wrote beyond its scratch";
    for (size_t i = 0; i < inputs.size(); ++i) {
      bool may_change = false;
      if (inputs[i].buffer == nullptr) continue;
      if (graph_.value(node.inputs[i]).kind == ValueKind::kState) may_change = true;
      for (const Placed& o : outputs) may_change |= o.buffer == inputs[i].buffer;
      EXPECT_TRUE(may_change || inputs[i].buffer->SameBytes(*before[i]))
          << node.op << " changed its input " << i;
    }
    for (const Placed& o : outputs) {
      EXPECT_TRUE(o.buffer == nullptr || o.buffer->GuardIntact())
          << node.op << " wrote beyond an output";
    }
    return absl::OkStatus();
  }

  // To row-major and back leaves every byte as it was only if the padding is zero.
  void CheckPadding(const Node& node, const Placed& value) {
    if (value.spec.dtype != DataType::kFloat32 || value.spec.layout == nullptr) return;
    const Placed plain = Reordered(value, Plain(value.spec));
    const Placed back = Reordered(plain, value.spec);
    const auto* a = static_cast<const float*>(value.buffer->data());
    const auto* b = static_cast<const float*>(back.buffer->data());
    for (size_t i = 0; i < value.spec.bytes / sizeof(float); ++i) {
      ASSERT_EQ(a[i], b[i]) << node.op << " left padding that is not zero, at element " << i;
    }
  }

  const KernelBackend& backend_;
  const Graph& graph_;
  RunOptions options_;
  std::map<ValueId, Placed> values_;
  int reorders_ = 0;
};

}  // namespace pipedream
