#include "coordinator/launch/collect_result.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "common/base/status.h"
#include "common/graph/model.h"
#include "common/graph/safetensors.h"
#include "coordinator/store/job_files.h"

namespace pipedream {
namespace {

struct WorkFolder {
  std::string path;
  ~WorkFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace

absl::StatusOr<std::string> CollectAndExport(const CollectResult& request, WorkerClients* clients,
                                             BlobStore* blobs, const std::string& data_root,
                                             const CallOptions& options) {
  PD_ASSIGN_OR_RETURN(std::string folder, blobs->MakeWorkFolder());
  WorkFolder work{folder};
  std::map<std::string, Tensor> trained;
  for (const JobMember& member : request.members) {
    PD_ASSIGN_OR_RETURN(std::shared_ptr<WorkerClient> client, clients->Get(member.worker));
    std::string path = fmt::format("{}/stage-{}.safetensors", folder, member.stage);
    PD_RETURN_IF_ERROR(client->FetchWeights(request.job.ref, path, options));
    auto tensors = ReadSafetensors(path);
    if (!tensors.ok())
      return Annotate(tensors.status(),
                      fmt::format("weights of stage {} from {}", member.stage, member.worker.id));
    for (auto& [name, tensor] : *tensors) {
      auto [it, fresh] = trained.emplace(name, std::move(tensor));
      // Stages that share a parameter hold equal copies.
      if (!fresh && !std::ranges::equal(it->second.bytes(), tensor.bytes()))
        return Internal("tensor '{}' came from two stages with different values", name);
    }
  }
  PD_ASSIGN_OR_RETURN(JobFiles files, JobFiles::Open(*request.job.spec, blobs, data_root));
  PD_ASSIGN_OR_RETURN(std::shared_ptr<const Model> model, Model::Load(files.model_path()));
  std::string result = folder + "/result.onnx";
  PD_RETURN_IF_ERROR(model->Export(trained, result));
  if (std::filesystem::exists(result + ".data"))
    return WithReason(Unimplemented("the trained model is larger than one ONNX file of 2 GB"),
                      "RESULT_TOO_LARGE");
  if (!request.ledger.empty()) PD_RETURN_IF_ERROR(blobs->AddText(request.ledger).status());
  return blobs->AddFile(result);
}

}  // namespace pipedream
