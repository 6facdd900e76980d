// The optimizers that MakeOptimizer chooses from, and what their loops share.
#pragma once

#include <memory>

#include "worker/optim/optimizer.h"

// One loop compiled for several instruction sets; not under sanitizers, whose runtime is not ready
// when the choice is made.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(PIPEDREAM_SANITIZED)
#define PD_UPDATE_LOOP __attribute__((noinline, target_clones("avx512f", "avx2", "default")))
#else
#define PD_UPDATE_LOOP __attribute__((noinline))
#endif

namespace pipedream {

std::unique_ptr<Optimizer> MakeSgd(const OptimizerSpec& spec);
// Adam and AdamW.
std::unique_ptr<Optimizer> MakeAdam(const OptimizerSpec& spec);

// Loops add g * 0 up: 0 while every g is finite, NaN from the first that is not.
inline bool StaysFinite(float sum_of_zeros) { return sum_of_zeros == 0; }

}  // namespace pipedream
