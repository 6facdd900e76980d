// Parameter updates: elementwise over one parameter, written out of place so that the new version
// needs no copy of the old one.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/job/optimizer_spec.h"

namespace pipedream {

struct UpdateArguments {
  std::span<const float> weights;    // newest version
  std::span<float> new_weights;      // may be the same memory as `weights`
  std::span<const float> gradient;   // of the mean loss over the update's samples
  std::vector<std::span<float>> state;   // state_tensors() of them, zero before the first update
  double learning_rate = 0;
  double gradient_scale = 1;         // clipping; multiplies the gradient
  int64_t step = 0;                  // number of this update, from 0
};

// Threads: const; distinct parameters may be updated concurrently.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // float32 tensors of the parameter's size kept between updates: "momentum"; "first_moment", "second_moment".
  virtual const std::vector<std::string>& state_tensors() const = 0;
  // Updates one parameter. False if a gradient element was not finite: new_weights and state are then
  // undefined and the run must stop.
  virtual bool Update(const UpdateArguments& arguments) const = 0;
};

// REQUIRES: Validate(spec).ok().
std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerSpec& spec);

// Sum of squares in double, in index order.
double SquaredNorm(std::span<const float> values);

}  // namespace pipedream
