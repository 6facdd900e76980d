#include "tests/integration/trained_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "common/base/file.h"
#include "common/base/status.h"
#include "common/codec/job_codec.h"
#include "common/codec/plan_codec.h"
#include "common/graph/onnx/proto.h"

namespace pipedream {

Words JobWords(const SmallJob& small, const Words& more, const std::string& model_path) {
  Words words = {"--model",
                 model_path.empty() ? small.model_path() : model_path,
                 "--data",
                 small.folder(),
                 "--loss",
                 "cross_entropy",
                 "--epochs",
                 "2",
                 "--batch-size",
                 "8",
                 "--lr",
                 "0.05",
                 "--momentum",
                 "0.9",
                 "--seed",
                 "5",
                 "--start-timeout",
                 "30"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

absl::StatusOr<std::map<std::string, std::string>> ReadInitialisers(const std::string& path) {
  PD_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, int64_t{1} << 30));
  onnx::ModelProto model;
  if (!model.ParseFromString(bytes)) return InvalidArgument("{}: not an ONNX file", path);
  std::map<std::string, std::string> initialisers;
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    if (!tensor.has_raw_data()) return Unimplemented("{}: {} has no raw data", path, tensor.name());
    initialisers[tensor.name()] = tensor.raw_data();
  }
  return initialisers;
}

absl::StatusOr<SimulationOptions> SimulationOf(const v1::Job& job, const SmallJob& small) {
  return SimulationOf(job, small, small.model());
}

absl::StatusOr<SimulationOptions> SimulationOf(const v1::Job& job, const SmallJob& small,
                                               std::shared_ptr<const Model> model) {
  SimulationOptions options;
  options.model = std::move(model);
  PD_ASSIGN_OR_RETURN(options.spec, FromProto(job.spec()));
  PD_ASSIGN_OR_RETURN(options.run, FromProto(job.run()));
  PD_ASSIGN_OR_RETURN(Plan plan, FromProto(job.plan()));
  options.stage_of = plan.stage_of();
  options.replicas = plan.replicas();
  options.warmup = plan.warmup();
  options.device_of = plan.device_of;
  options.train = small.train();
  if (options.run.evaluation_samples > 0) options.evaluation = small.evaluation();
  return options;
}

SimulationOptions OnOneStage(SimulationOptions options) {
  options.stage_of.assign(options.stage_of.size(), 0);
  options.replicas = {1};
  options.warmup.clear();
  options.device_of.clear();
  options.spec.schedule = "1f1b";
  options.spec.schedule_table.clear();
  options.spec.chunks = 0;
  return options;
}

void ExpectBitEqual(const v1::Job& job, const std::string& exported_path,
                    const SimulationResult& simulated) {
  auto exported = ReadInitialisers(exported_path);
  ASSERT_TRUE(exported.ok()) << exported.status().ToString();
  ASSERT_FALSE(simulated.weights.empty());
  for (const auto& [name, tensor] : simulated.weights) {
    auto found = exported->find(name);
    ASSERT_NE(found, exported->end()) << name;
    ASSERT_EQ(found->second.size(), tensor.bytes().size()) << name;
    EXPECT_EQ(std::memcmp(found->second.data(), tensor.bytes().data(), found->second.size()), 0)
        << name << " differs";
  }
  const v1::JobProgress& progress = job.progress();
  ASSERT_EQ(progress.curve_size(), static_cast<int>(simulated.losses.size()));
  for (int i = 0; i < progress.curve_size(); ++i) {
    const v1::LossPoint& point = progress.curve(i);
    EXPECT_EQ(point.loss_sum() / static_cast<double>(point.samples()), simulated.losses[i])
        << "minibatch " << i;
  }
  ASSERT_EQ(progress.evaluations_size(), static_cast<int>(simulated.evaluations.size()));
  for (int i = 0; i < progress.evaluations_size(); ++i) {
    EXPECT_EQ(progress.evaluations(i).loss_sum(), simulated.evaluations[i].loss_sum) << i;
    EXPECT_EQ(progress.evaluations(i).correct(), simulated.evaluations[i].correct) << i;
    EXPECT_EQ(progress.evaluations(i).positions(), simulated.evaluations[i].positions) << i;
  }
}

std::string ConfigOf(const v1::Job& job) {
  std::string text;
  for (const v1::PlanStage& stage : job.plan().stages())
    text += fmt::format("{}{}", text.empty() ? "" : "-", stage.workers_size());
  return text;
}

}  // namespace pipedream
