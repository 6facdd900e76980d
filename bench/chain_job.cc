#include "bench/chain_job.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>

#include "common/base/status.h"
#include "common/job/stage_flow.h"
#include "examples/models/networks.h"
#include "examples/models/onnx_writer.h"
#include "examples/models/synthetic_data.h"

namespace pipedream {
namespace {

constexpr int64_t kClasses = 10;

bool WriteChain(const Network& network, uint64_t seed, const std::string& path) {
  OnnxWriter w("chain", network.sample, seed);
  const int64_t channels = network.sample[0];
  std::string x = "x";
  for (int k = 1; k <= ChainJob::kConvolutions; ++k) {
    x = w.Conv(fmt::format("conv{}", k), x, channels, channels, 3, 1, 1, true);
    x = w.Relu(fmt::format("relu{}", k), x);
  }
  x = w.Flatten("flatten", w.GlobalAveragePool("pool", x));
  return w.Write(w.Linear("fc", x, channels, kClasses), kClasses, path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChainJob>> ChainJob::Create(const ChainOptions& options) {
  std::unique_ptr<ChainJob> job(new ChainJob());
  job->folder_ = (std::filesystem::temp_directory_path() / "simulator-accuracy-XXXXXX").string();
  if (mkdtemp(job->folder_.data()) == nullptr)
    return Unavailable("cannot make the temporary folder {}", job->folder_);
  const Network network{
      "chain", "", {options.channels, options.size, options.size}, kClasses, WriteChain};
  const std::string model = job->folder_ + "/model.onnx";
  if (!network.write(network, 0, model) ||
      !WriteSyntheticData(network, job->folder_, options.samples, 0))
    return Unavailable("cannot write to {}", job->folder_);
  PD_ASSIGN_OR_RETURN(job->model_, Model::Load(model));
  std::vector<ColumnSpec> columns(2);
  columns[0].name = "x";
  columns[0].path = job->folder_ + "/train-x.npy";
  columns[1].name = "y";
  columns[1].path = job->folder_ + "/train-y.npy";
  const Shape sample{options.channels, options.size, options.size};
  PD_ASSIGN_OR_RETURN(job->data_,
                      Dataset::Open(columns, {{"x", DataType::kFloat32, sample, 0},
                                              {"y", DataType::kInt64, Shape{}, kClasses}}));
  return job;
}

ChainJob::~ChainJob() {
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

JobSpec ChainJob::Spec() const {
  JobSpec spec;
  LossTerm term;
  term.output = "logits";
  term.label = "y";
  spec.loss = {term};
  spec.optimizer.momentum = 0.9;
  spec.learning_rate.base = 0.001;
  return spec;
}

absl::StatusOr<std::vector<int>> ChainJob::EvenStages(int stages) const {
  PD_ASSIGN_OR_RETURN(TrainingGraph training, BindTraining(*model_, Spec(), 1));
  std::vector<int> stage_of;
  int convolutions = 0;
  for (int n = 0; n < training.forward_nodes; ++n) {
    if (training.graph.nodes()[n].op == "Conv") ++convolutions;
    stage_of.push_back((std::max(convolutions, 1) - 1) * stages / kConvolutions);
  }
  return stage_of;
}

}  // namespace pipedream
