#include "client/flags.h"

#include <fmt/core.h>

#include "common/base/units.h"

namespace pipedream {
namespace {

// A flag that sets one key of the job file.
void Setting(CLI::App* app, JobOptions* job, const std::string& flag, const std::string& key,
             const std::string& help, const char* type, const std::string& group) {
  app->add_option_function<std::string>(
         flag, [job, key](const std::string& value) { job->settings.emplace_back(key, value); },
         help)
      ->type_name(type)
      ->group(group);
}
void Switch(CLI::App* app, JobOptions* job, const std::string& flag, const std::string& key,
            const std::string& value, const std::string& help, const std::string& group) {
  app->add_flag_callback(
         flag, [job, key, value] { job->settings.emplace_back(key, value); }, help)
      ->group(group);
}

// A flag that adds to a list of the job file.
void Patterns(CLI::App* app, JobOptions* job, const char* key, const std::string& help,
              const char* type, const char* group) {
  app->add_option_function<std::vector<std::string>>(
         fmt::format("--{}", key),
         [job, key](const std::vector<std::string>& patterns) {
           for (const std::string& text : patterns) job->settings.emplace_back(key, text);
         },
         help)
      ->type_name(type)
      ->expected(1)
      ->take_all()
      ->group(group);
}

}  // namespace

void AddDataOptions(CLI::App* app, JobOptions* job) {
  app->add_option("-f,--file", job->file, "Job file in YAML; - reads standard input")->group("Job");
  app->add_option("--set", job->sets, "Override a key of the job file: optimizer.lr=0.01")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all()
      ->group("Job");
  Setting(app, job, "--model", "model", "ONNX model to train", "FILE", "Job");
  Setting(app, job, "--name", "name", "Shown by `get jobs`", "TEXT", "Job");
  app->add_option("--data", job->data,
                  "Folder with standard file names, or INPUT=FILE for each model input")
      ->type_name("DIR|NAME=FILE")
      ->expected(1)
      ->take_all()
      ->group("Data");
  app->add_option("--labels", job->labels, "Labels, when --data names files")
      ->type_name("[NAME=]FILE")
      ->group("Data");
  app->add_option("--test-data", job->test_data, "Held-out data, evaluated after each epoch")
      ->type_name("NAME=FILE")
      ->expected(1)
      ->take_all()
      ->group("Data");
  app->add_option("--test-labels", job->test_labels, "Its labels")
      ->type_name("[NAME=]FILE")
      ->group("Data");
  app->add_option("--scale", job->scale, "Multiply model inputs (images: 0.00392157)")
      ->check(CLI::NonNegativeNumber)
      ->group("Data");
  app->add_option("--limit", job->limit, "Use the first N training samples")
      ->check(CLI::PositiveNumber)
      ->group("Data");
  app->add_option("--test-limit", job->test_limit, "Use the first N held-out samples")
      ->check(CLI::PositiveNumber)
      ->group("Data");
  Switch(app, job, "--no-shuffle", "shuffle", "false", "Keep the order of the data", "Data");
  Switch(app, job, "--no-evaluate", "evaluate", "false", "Do not evaluate", "Data");
  Switch(app, job, "--no-ledger", "ledger", "false", "Keep no record for `pipedream verify`",
         "Data");
}

void AddTrainingOptions(CLI::App* app, JobOptions* job) {
  const char* group = "Training";
  Setting(app, job, "--loss", "loss", "cross_entropy, mse or output:NAME", "KIND", group);
  Setting(app, job, "--optimizer", "optimizer.type", "sgd, adam or adamw", "KIND", group);
  Setting(app, job, "--lr,--learning-rate", "optimizer.lr", "Learning rate", "X", group);
  Setting(app, job, "--momentum", "optimizer.momentum", "SGD momentum", "X", group);
  Switch(app, job, "--nesterov", "optimizer.nesterov", "true", "Nesterov momentum", group);
  Setting(app, job, "--weight-decay", "optimizer.weight_decay", "Weight decay", "X", group);
  Setting(app, job, "--clip-norm", "optimizer.clip_norm", "Clip by global gradient norm", "X",
          group);
  Setting(app, job, "--lr-schedule", "optimizer.schedule", "constant, step or cosine", "KIND",
          group);
  Setting(app, job, "--warmup-updates", "optimizer.warmup", "Updates of linear warm-up", "N",
          group);
  Setting(app, job, "--epochs", "epochs", "Passes over the data", "N", group);
  Setting(app, job, "--batch-size", "batch_size", "Samples per minibatch", "N", group);
  Setting(app, job, "--seed", "seed", "Seed of shuffling and dropout", "N", group);
  for (const char* key : {"train", "freeze"}) {
    Patterns(app, job, key, fmt::format("Tensors to {}, by name pattern; may be repeated", key),
             "PATTERN", group);
  }
  Setting(app, job, "--on-nonfinite", "on_nonfinite",
          "A loss or gradient that is not finite: stop, or skip the update", "ACTION", group);
  group = "Pipeline";
  Setting(app, job, "--schedule", "schedule", "A name of `pipedream schedule list`", "NAME", group);
  Setting(app, job, "--schedule-file", "schedule_file", "A schedule of your own, as a table",
          "FILE", group);
  Setting(app, job, "--microbatches", "microbatches",
          "Parts of a minibatch (not where every minibatch is an update)", "N", group);
  Setting(app, job, "--stages", "stages", "Pipeline stages (default: the planner chooses)", "N",
          group);
  Setting(app, job, "--chunks", "chunks", "Stages per device (interleaved, zb_v)", "N", group);
  Patterns(app, job, "recompute",
           "Save memory: none, stage, or nodes whose outputs are kept; may be repeated",
           "none|stage|NODE", group);
  Setting(app, job, "--plan", "plan", "A plan of `pipedream plan --save`, as it is or edited",
          "FILE", group);
  Setting(app, job, "--workers", "workers", "Workers to use (default: all idle)", "N", group);
  Setting(app, job, "--max-replicas", "max_replicas", "Most replicas of a stage", "N", group);
  Setting(app, job, "--transport", "transport", "auto, local, shm or tcp", "KIND", group);
  Setting(app, job, "--start-timeout", "start_timeout", "How long to wait for workers", "TIME",
          group);
}

CLI::Option* AddTimeout(CLI::App* app, double* seconds, const std::string& help) {
  return app
      ->add_option_function<std::string>(
          "--timeout",
          [seconds](const std::string& text) {
            auto parsed = ParseSeconds(text);
            if (!parsed.ok()) {
              throw CLI::ValidationError("--timeout", parsed.status().ToString());
            }
            *seconds = *parsed;
          },
          help)
      ->type_name("TIME");
}

CLI::Option* AddBytes(CLI::App* app, const std::string& flag, int64_t* out,
                      const std::string& help) {
  return app
      ->add_option_function<std::string>(
          flag,
          [flag, out](const std::string& text) {
            auto bytes = ParseBytes(text);
            if (!bytes.ok()) throw CLI::ValidationError(flag, bytes.status().ToString());
            *out = *bytes;
          },
          help)
      ->type_name("BYTES");
}

void AddPlanOptions(CLI::App* plan, PlanOptions* options) {
  const char* group = "Planning";
  plan->add_option("--profile", options->profiles,
                   "Profile to plan by, in place of measuring; may be repeated, one per device "
                   "kind")
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->group(group);
  plan->add_option("--topology", options->topology, "Cluster to plan for, in place of the workers")
      ->type_name("FILE")
      ->group(group);
  plan->add_option("--rule", options->rule,
                   "What counts: measured (default), or code, paper, duplex, to compare with the "
                   "literature")
      ->check(CLI::IsMember({"measured", "code", "paper", "duplex"}))
      ->type_name("NAME")
      ->group(group);
  plan->add_option("--workers-idle-ok", options->workers_may_idle,
                   "Whether workers may stay idle (default true)")
      ->type_name("BOOL")
      ->group(group);
  AddBytes(plan, "--memory-limit", &options->memory_limit, "Memory that a worker may use (16GiB)")
      ->group(group);
  plan->add_option("--what-if", options->what_if,
                   "Another cluster: workers=8,link=25G,latency=50us,memory=16GiB,speed=2")
      ->type_name("KEY=VALUE,...")
      ->group(group);
  plan->add_flag("--explain", options->explain, "Say more about why")->group(group);
  plan->add_option("--save", options->save, "Write the plan to a file, for submit --plan")
      ->type_name("FILE")
      ->group(group);
}

}  // namespace pipedream
