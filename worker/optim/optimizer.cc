#include "worker/optim/optimizer.h"

#include "common/base/status.h"
#include "worker/optim/update_rules.h"

namespace pipedream {

std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerSpec& spec) {
  PIPEDREAM_CHECK(Validate(spec).ok());
  if (spec.kind == OptimizerKind::kSgd) return MakeSgd(spec);
  return MakeAdam(spec);
}

double SquaredNorm(std::span<const float> values) {
  // In index order, so that the sum does not depend on how a machine vectorises it.
  double sum = 0;
  for (float v : values) sum += static_cast<double>(v) * v;
  return sum;
}

}  // namespace pipedream
