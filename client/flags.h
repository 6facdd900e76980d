// Flags that several commands have.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "client/commands/commands.h"
#include "client/job_options.h"

namespace pipedream {

// What to train, on what data; how, and how to divide it. The targets must outlive the app.
void AddDataOptions(CLI::App* app, JobOptions* job);
void AddTrainingOptions(CLI::App* app, JobOptions* job);
// What to plan by.
void AddPlanOptions(CLI::App* plan, PlanOptions* options);

// --timeout: "90", "10m"; keeps the message of a bad one for the usage error.
CLI::Option* AddTimeout(CLI::App* app, double* seconds, const std::string& help);
// "16GiB"; likewise.
CLI::Option* AddBytes(CLI::App* app, const std::string& flag, int64_t* out,
                      const std::string& help);

}  // namespace pipedream
