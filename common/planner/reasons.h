// Words for people: why a candidate is as slow as it is, and what could be better.
#pragma once

#include <string>
#include <vector>

#include "common/planner/candidates.h"

namespace pipedream {

// "the all-reduce of stage 0's 512.0 MiB of parameters"
std::string Bottleneck(const CandidateSource& source, const Candidate& candidate);

// Why `other` is not the plan.
std::string WhyNot(const CandidateSource& source, const Candidate& other, const Candidate& chosen);

// "stage 2 (conv5 .. fc1) needs 9.10 GiB, a worker has 8.00 GiB"
std::string MemoryLack(const CandidateSource& source, const Candidate& candidate);

// A stage bound by its link, a node that no cut can balance, workers that stay idle.
std::vector<std::string> Warnings(const CandidateSource& source, const Candidate& chosen);

}  // namespace pipedream
