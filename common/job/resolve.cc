#include "common/job/resolve.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/base/nearest_name.h"
#include "common/job/stage_flow.h"

namespace pipedream {
namespace {

constexpr int64_t kProbeBatch = 2;  // not 1, so that the batch axis is told from axes of length 1

bool Contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> InputNames(const Model& model) {
  std::vector<std::string> names;
  for (const ModelInput& input : model.inputs()) names.push_back(input.name);
  return names;
}

std::string FieldOf(const JobSpec& spec, size_t term) {
  return spec.loss.size() == 1 ? "loss" : fmt::format("loss[{}]", term);
}

absl::Status FillOutput(const Model& model, const std::string& field, LossTerm* term) {
  const std::vector<std::string>& outputs = model.output_names();
  if (term->output.empty()) {
    if (outputs.size() != 1) {
      return InvalidArgument("{}.output: the model has {} outputs, name one of: {}", field,
                             outputs.size(), fmt::join(outputs, ", "));
    }
    term->output = outputs[0];
  }
  if (!Contains(outputs, term->output)) {
    return InvalidArgument("{}.output: the model has no output '{}'; did you mean '{}'? It has: {}",
                           field, term->output, NearestName(term->output, outputs),
                           fmt::join(outputs, ", "));
  }
  return absl::OkStatus();
}

// Before labels are guessed: a column that feeds a misspelt input would look like one.
absl::Status CheckInputs(const JobSpec& spec, const std::vector<std::string>& inputs) {
  if (!spec.data_folder.empty()) return absl::OkStatus();
  std::vector<std::string> given;
  for (const ColumnSpec& column : spec.train_columns) given.push_back(column.name);
  for (const std::string& input : inputs) {
    if (Contains(given, input)) continue;
    return InvalidArgument(
        "data.train: no file for '{}', an input of the model; given: {}; the model's inputs: {}",
        input, given.empty() ? "none" : fmt::format("{}", fmt::join(given, ", ")),
        fmt::join(inputs, ", "));
  }
  return absl::OkStatus();
}

absl::Status FillLabel(const JobSpec& spec, const std::vector<std::string>& inputs,
                       const std::string& field, LossTerm* term) {
  if (term->kind == LossTerm::Kind::kOutput) return absl::OkStatus();
  if (term->label.empty() && !spec.data_folder.empty()) {
    term->label = std::string(1, 'y');
  } else if (term->label.empty()) {
    std::vector<std::string> candidates;
    for (const ColumnSpec& column : spec.train_columns)
      if (!Contains(inputs, column.name)) candidates.push_back(column.name);
    if (candidates.size() != 1) {
      return InvalidArgument(
          "{}.label: {} columns of data.train are no model input ({}); name the one that holds the "
          "labels",
          field, candidates.size(),
          candidates.empty() ? "none" : fmt::format("{}", fmt::join(candidates, ", ")));
    }
    term->label = candidates[0];
  }
  if (Contains(inputs, term->label)) {
    return InvalidArgument(
        "{}.label: '{}' is an input of the model; give its file again under another column name",
        field, term->label);
  }
  return absl::OkStatus();
}

absl::Status FillColumns(const std::vector<std::string>& inputs,
                         const std::vector<std::string>& labels, JobSpec* spec) {
  if (spec->data_folder.empty()) return absl::OkStatus();
  PD_ASSIGN_OR_RETURN(spec->train_columns, FindColumns(spec->data_folder, "train", inputs, labels));
  absl::StatusOr<std::vector<ColumnSpec>> test =
      FindColumns(spec->data_folder, "test", inputs, labels);
  if (test.ok()) {
    spec->evaluation_columns = *std::move(test);
  } else if (!absl::IsNotFound(test.status())) {
    return test.status();
  }
  spec->data_folder.clear();
  return absl::OkStatus();
}

absl::Status CheckColumnNames(std::string_view field, const std::vector<ColumnSpec>& columns,
                              const std::vector<std::string>& wanted) {
  for (const std::string& name : wanted) {
    const auto named = [&](const ColumnSpec& c) { return c.name == name; };
    if (std::none_of(columns.begin(), columns.end(), named)) {
      return InvalidArgument("{}: no file for '{}'; the model and the loss need: {}", field, name,
                             fmt::join(wanted, ", "));
    }
  }
  for (const ColumnSpec& column : columns) {
    if (Contains(wanted, column.name)) continue;
    return InvalidArgument(
        "{}.{}: is neither an input of the model nor a label; did you mean '{}'? Needed: {}", field,
        column.name, NearestName(column.name, wanted), fmt::join(wanted, ", "));
  }
  return absl::OkStatus();
}

// What one loss term wants of its label.
absl::StatusOr<ColumnRequirement> LabelRequirement(const Graph& graph, const std::string& field,
                                                   const LossTerm& term) {
  const ValueId id = graph.FindValue(term.output);
  if (id == kNoValue) return InvalidArgument("{}.output: no output '{}'", field, term.output);
  const Value& output = graph.value(id);
  std::vector<int64_t> dims = output.shape.dims();
  const bool classes = term.kind == LossTerm::Kind::kCrossEntropy;
  if (dims.empty() || dims[0] != kProbeBatch || (classes && dims.size() < 2)) {
    return InvalidArgument(
        "{}.output: '{}' has shape {} for a batch of {}; {} needs the batch as first axis{}", field,
        term.output, output.shape.ToString(), kProbeBatch, classes ? "cross_entropy" : "mse",
        classes ? " and the classes as last" : "");
  }
  dims.erase(dims.begin());
  ColumnRequirement requirement{term.label, DataType::kFloat32, {}, 0};
  if (classes) {
    requirement.dtype = DataType::kInt64;
    requirement.classes = dims.back();
    dims.pop_back();
  }
  requirement.sample_shape = Shape(std::move(dims));
  return requirement;
}

bool SameDemand(const ColumnRequirement& a, const ColumnRequirement& b) {
  return a.dtype == b.dtype && a.sample_shape == b.sample_shape && a.classes == b.classes;
}

}  // namespace

absl::StatusOr<std::vector<ColumnRequirement>> Requirements(const JobSpec& spec,
                                                            const Model& model) {
  std::vector<ColumnRequirement> out;
  for (const ModelInput& input : model.inputs())
    out.push_back({input.name, input.dtype, input.sample_shape, 0});
  BindOptions options;
  options.batch = kProbeBatch;
  options.form = GraphForm::kInference;
  PD_ASSIGN_OR_RETURN(const Graph graph, model.Bind(options));
  for (size_t i = 0; i < spec.loss.size(); ++i) {
    const LossTerm& term = spec.loss[i];
    if (term.kind == LossTerm::Kind::kOutput) continue;
    const std::string field = FieldOf(spec, i);
    PD_ASSIGN_OR_RETURN(ColumnRequirement wanted, LabelRequirement(graph, field, term));
    const auto same = std::find_if(out.begin(), out.end(),
                                   [&](const auto& other) { return other.name == wanted.name; });
    if (same == out.end()) {
      out.push_back(std::move(wanted));
    } else if (!SameDemand(*same, wanted)) {
      return InvalidArgument(
          "{}.label: '{}' must be {} {} here but {} {} elsewhere; use two columns", field,
          term.label, ToString(wanted.dtype), wanted.sample_shape.ToString(), ToString(same->dtype),
          same->sample_shape.ToString());
    }
  }
  return out;
}

absl::StatusOr<JobSpec> ResolveAgainstModel(JobSpec spec, const Model& model) {
  const std::vector<std::string> inputs = InputNames(model);
  PD_RETURN_IF_ERROR(CheckInputs(spec, inputs));
  std::vector<std::string> labels;
  for (size_t i = 0; i < spec.loss.size(); ++i) {
    LossTerm& term = spec.loss[i];
    const std::string field = FieldOf(spec, i);
    PD_RETURN_IF_ERROR(FillOutput(model, field, &term));
    PD_RETURN_IF_ERROR(FillLabel(spec, inputs, field, &term));
    if (!term.label.empty() && !Contains(labels, term.label)) labels.push_back(term.label);
  }
  PD_RETURN_IF_ERROR(FillColumns(inputs, labels, &spec));
  std::vector<std::string> wanted = inputs;
  wanted.insert(wanted.end(), labels.begin(), labels.end());
  PD_RETURN_IF_ERROR(CheckColumnNames("data.train", spec.train_columns, wanted));
  if (!spec.evaluation_columns.empty())
    PD_RETURN_IF_ERROR(CheckColumnNames("data.test", spec.evaluation_columns, wanted));
  PD_RETURN_IF_ERROR(Requirements(spec, model).status());
  if (!spec.recompute.checkpoints.empty()) {
    PD_ASSIGN_OR_RETURN(const TrainingGraph training, BindTraining(model, spec, kProbeBatch));
    PD_RETURN_IF_ERROR(CheckpointNodes(spec, training).status());
  }
  return spec;
}

LrSchedule ResolveSchedule(LrSchedule schedule, const RunShape& run) {
  if (schedule.kind == LrScheduleKind::kCosine && schedule.total == 0)
    schedule.total = run.minibatches_per_epoch() * run.epochs;
  return schedule;
}

}  // namespace pipedream
