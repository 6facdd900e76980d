// The layer profiles that were published with PipeDream (SOSP 2019): graph files of one node or
// edge per line. They serve comparisons with the literature and planning without a cluster.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "common/plan/profile.h"

namespace pipedream {

// Nodes in topological order (the smallest free id first), network inputs left out: they are free
// and belong to the first stage, but what they give still counts in the cuts that it crosses.
// Gradients are as large as what they belong to, and go the same ways. The file does not know how the backward time is shared: all of it is `input_gradient_s`.
// kInvalidArgument names the line and what is wrong with it, or the cycle.
absl::StatusOr<Profile> ParsePublishedProfile(std::string_view text, std::string_view file_name);

}  // namespace pipedream
