#include "coordinator/service/check_job.h"

#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/graph/model.h"
#include "common/graph/training_graph.h"
#include "common/job/resolve.h"
#include "coordinator/store/job_files.h"

namespace pipedream {
namespace {

// What is wrong with the job is the user's mistake whatever it looked like from inside; trouble of
// this machine stays what it is. A reason that is there already says more.
absl::Status Refuse(const absl::Status& status, std::string_view reason) {
  absl::StatusCode code = status.code();
  bool ours = code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kInternal ||
              code == absl::StatusCode::kFailedPrecondition;
  if (!ours) code = absl::StatusCode::kInvalidArgument;
  std::string known = ReasonOf(status);
  std::string message(status.message().data(), status.message().size());
  return WithReason(absl::Status(code, message), known.empty() ? reason : known);
}

// The same error with the path that the user wrote in place of where its content lies here.
absl::Status AsWritten(const absl::Status& status, const std::string& here,
                       const std::string& written) {
  std::string message(status.message().data(), status.message().size());
  if (here.empty() || here == written) return status;
  for (size_t at = 0; (at = message.find(here, at)) != std::string::npos; at += written.size())
    message.replace(at, here.size(), written);
  std::string reason = ReasonOf(status);
  absl::Status out(status.code(), message);
  return reason.empty() ? out : WithReason(out, reason);
}

absl::StatusOr<std::shared_ptr<const Model>> LoadModel(const JobFiles& files, const JobSpec& spec) {
  auto model = Model::Load(files.model_path());
  if (model.ok()) return model;
  bool unsupported = model.status().code() == absl::StatusCode::kUnimplemented;
  absl::Status status = AsWritten(model.status(), files.model_path(), spec.model.path);
  return Refuse(Annotate(status, fmt::format("model '{}'", spec.model.path)),
                unsupported ? "UNSUPPORTED_MODEL" : "INVALID_MODEL");
}

absl::StatusOr<int64_t> CountRows(const JobFiles& files, const std::vector<ColumnSpec>& columns,
                                  const std::vector<ColumnRequirement>& requirements,
                                  std::string_view split) {
  auto opened = files.Columns(columns);
  if (!opened.ok()) return Refuse(Annotate(opened.status(), split), "INVALID_DATA");
  auto dataset = Dataset::Open(*opened, requirements);
  if (!dataset.ok()) {
    absl::Status status = dataset.status();
    for (size_t i = 0; i < columns.size(); ++i) {
      status = AsWritten(status, (*opened)[i].path, columns[i].path);
      status = AsWritten(status, (*opened)[i].vocabulary_path, columns[i].vocabulary_path);
    }
    return Refuse(Annotate(status, split), "INVALID_DATA");
  }
  return (*dataset)->rows();
}

absl::Status CheckGraph(const Model& model, const JobSpec& spec, const RunShape& run) {
  BindOptions bind{.batch = run.microbatch_size(),
                   .form = GraphForm::kTraining,
                   .train = spec.train_patterns,
                   .freeze = spec.freeze_patterns};
  PD_ASSIGN_OR_RETURN(Graph graph, model.Bind(bind));
  PD_ASSIGN_OR_RETURN(TrainingGraph training, MakeTrainingGraph(graph, spec.loss));
  if (spec.stages > training.forward_nodes)
    return WithReason(InvalidArgument("stages: {} are more than the {} nodes of the model",
                                      spec.stages, training.forward_nodes),
                      "TOO_MANY_STAGES");
  if (spec.plan.has_value() && std::ssize(spec.plan->stage_of()) != training.forward_nodes) {
    return WithReason(
        InvalidArgument("plan: has {} nodes, the model has {}: it is of another model, "
                        "or of another version of it; plan again",
                        spec.plan->stage_of().size(), training.forward_nodes),
        "PLAN_REJECTED");
  }
  if (run.evaluation_samples == 0) return absl::OkStatus();
  bind.form = GraphForm::kInference;
  PD_ASSIGN_OR_RETURN(Graph inference, model.Bind(bind));
  return MakeEvaluationGraph(inference, spec.loss).status();
}

}  // namespace

absl::StatusOr<CheckedJob> CheckJob(const JobSpec& spec, BlobStore* blobs,
                                    const std::string& data_root) {
  auto invalid = [](const absl::Status& status) { return Refuse(status, "INVALID_SPEC"); };
  if (absl::Status status = Validate(spec); !status.ok()) return invalid(status);
  auto files = JobFiles::Open(spec, blobs, data_root);
  if (!files.ok()) return invalid(files.status());
  PD_ASSIGN_OR_RETURN(std::shared_ptr<const Model> model, LoadModel(*files, spec));
  auto resolved = ResolveAgainstModel(spec, *model);
  if (!resolved.ok()) return invalid(resolved.status());
  auto requirements = Requirements(*resolved, *model);
  if (!requirements.ok()) return invalid(requirements.status());

  PD_ASSIGN_OR_RETURN(int64_t train_rows,
                      CountRows(*files, resolved->train_columns, *requirements, "training data"));
  int64_t evaluation_rows = 0;
  if (resolved->evaluate && !resolved->evaluation_columns.empty()) {
    PD_ASSIGN_OR_RETURN(evaluation_rows, CountRows(*files, resolved->evaluation_columns,
                                                   *requirements, "evaluation data"));
  }
  CheckedJob job{*std::move(resolved), {}, model->warnings()};
  job.run = MakeRunShape(job.spec, train_rows, evaluation_rows);
  if (absl::Status status = Validate(job.run); !status.ok()) return invalid(status);
  if (absl::Status status = CheckGraph(*model, job.spec, job.run); !status.ok())
    return Refuse(Annotate(status, fmt::format("model '{}'", spec.model.path)), "INVALID_MODEL");
  job.spec.learning_rate = ResolveSchedule(job.spec.learning_rate, job.run);
  return job;
}

}  // namespace pipedream
