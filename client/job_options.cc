#include "client/job_options.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>

#include "client/documents.h"
#include "client/exit_codes.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/job/job_schedule.h"

namespace pipedream {
namespace {

constexpr int64_t kMaxJobFileBytes = 4 << 20;

template <typename... Args>
absl::Status UsageError(fmt::format_string<Args...> format, Args&&... args) {
  return WithReason(InvalidArgument(format, std::forward<Args>(args)...), kUsageReason);
}

// Files named in a job file lie beside it.
void Rebase(const std::string& job_file, JobSpec* spec) {
  std::filesystem::path folder = std::filesystem::path(job_file).parent_path();
  if (folder.empty()) return;
  auto rebase = [&](std::string* path) {
    if (path->empty() || path->starts_with("shared:")) return;
    *path = (folder / *path).string();  // an absolute path stays itself
  };
  rebase(&spec->model.path);
  rebase(&spec->data_folder);
  rebase(&spec->schedule_file);
  rebase(&spec->plan_file);
  for (auto* columns : {&spec->train_columns, &spec->evaluation_columns}) {
    for (ColumnSpec& column : *columns) {
      rebase(&column.path);
      rebase(&column.vocabulary_path);
    }
  }
}

absl::StatusOr<JobSpec> ReadJobFile(const std::string& file, std::istream& standard_input) {
  if (file == "-") {
    std::string text(std::istreambuf_iterator<char>(standard_input), {});
    return ParseJobYaml(text, "standard input");
  }
  absl::StatusOr<std::string> text = ReadFile(file, kMaxJobFileBytes);
  if (!text.ok())
    return InvalidArgument("job file: {}", std::string(text.status().message().data(),
                                                       text.status().message().size()));
  PD_ASSIGN_OR_RETURN(JobSpec spec, ParseJobYaml(*text, file));
  Rebase(file, &spec);
  return spec;
}

// "a.b.c" = value below `root`; scalars on the way (optimizer: sgd) become maps where `scalar_key`
// says what they mean.
void Set(YAML::Node root, std::string_view key, const YAML::Node& value) {
  YAML::Node node = root;
  while (true) {
    size_t dot = key.find('.');
    std::string name(key.substr(0, dot));
    if (dot == std::string_view::npos) {
      node[name] = value;
      return;
    }
    YAML::Node child = node[name];
    if (!child.IsDefined() || child.IsNull()) {
      node[name] = YAML::Node(YAML::NodeType::Map);
    } else if (child.IsScalar()) {
      YAML::Node map(YAML::NodeType::Map);
      // The short forms of a job file: "optimizer: sgd", "x: images.npy".
      map[name == "optimizer" ? "type" : "file"] = child.Scalar();
      node[name] = map;
    }
    node.reset(node[name]);
    key.remove_prefix(dot + 1);
  }
}

// A schedule is said in one way: what the file says in another gives way.
void DropOthers(YAML::Node root, std::string_view key) {
  static constexpr const char* kWays[] = {"schedule", "schedule_file", "schedule_table"};
  if (std::ranges::find(kWays, key) == std::end(kWays)) return;
  for (const char* way : kWays)
    if (way != key) root.remove(way);
}

// Whether values of this key are added to a list.
bool IsListed(std::string_view key, std::string_view value) {
  if (key == "recompute") return value != "none" && value != "stage";
  return key == "train" || key == "freeze";
}

// "NAME=FILE"; nothing if there is no name before the first "=".
std::optional<std::pair<std::string, std::string>> SplitColumn(const std::string& text) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return std::nullopt;
  std::string name = text.substr(0, equals);
  if (name.find('/') != std::string::npos) return std::nullopt;
  return std::pair(name, text.substr(equals + 1));
}

// Column names may hold dots, so they are not part of a dotted key.
void SetColumn(YAML::Node root, const char* split, const std::string& name,
               const std::string& file) {
  YAML::Node data = root["data"];
  if (!data.IsDefined() || !data.IsMap()) root["data"] = YAML::Node(YAML::NodeType::Map);
  YAML::Node columns = root["data"][split];
  if (!columns.IsDefined()) root["data"][split] = YAML::Node(YAML::NodeType::Map);
  root["data"][split][name] = file;
}

absl::Status SetData(const JobOptions& options, YAML::Node root) {
  bool folder = false;
  for (const std::string& text : options.data) {
    if (auto column = SplitColumn(text)) {
      SetColumn(root, "train", column->first, column->second);
    } else {
      root["data"] = text;
      folder = true;
    }
  }
  if (folder && (options.data.size() > 1 || !options.test_data.empty() || !options.labels.empty() ||
                 !options.test_labels.empty())) {
    return UsageError(
        "--data {}: either one folder, or NAME=FILE for every input with "
        "--labels, --test-data and --test-labels; not both",
        options.data.front());
  }
  for (const std::string& text : options.test_data) {
    auto column = SplitColumn(text);
    if (!column) return UsageError("--test-data {}: expected NAME=FILE", text);
    SetColumn(root, "test", column->first, column->second);
  }
  for (auto [split, text] :
       {std::pair("train", &options.labels), std::pair("test", &options.test_labels)}) {
    if (text->empty()) continue;
    auto column = SplitColumn(*text).value_or(std::pair("labels", *text));
    SetColumn(root, split, column.first, column.second);
  }
  return absl::OkStatus();
}

absl::Status ApplySets(const std::vector<std::string>& sets, YAML::Node root) {
  for (const std::string& text : sets) {
    size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || text[0] == '.' || text[equals - 1] == '.' ||
        text.substr(0, equals).find("..") != std::string::npos) {
      return UsageError("--set {}: expected KEY=VALUE, such as optimizer.lr=0.01", text);
    }
    DropOthers(root, text.substr(0, equals));
    Set(root, text.substr(0, equals), YAML::Load(text.substr(equals + 1)));
  }
  return absl::OkStatus();
}

// Lines of the form that flags were brought into mean nothing to the user.
absl::Status WithoutLine(const absl::Status& status, const std::string& source) {
  std::string message(status.message().data(), status.message().size());
  if (!message.starts_with(source + ":")) return status;
  size_t digits = source.size() + 1;
  size_t end = message.find_first_not_of("0123456789", digits);
  if (end == digits || end == std::string::npos || message[end] != ':') return status;
  message.erase(digits, end + 1 - digits);
  return WithReason(absl::Status(status.code(), message), ReasonOf(status));
}

absl::StatusOr<JobSpec> WithOverrides(const JobOptions& options, const JobSpec& spec) {
  try {
    // Through the job file's form, so that a flag and its key mean the same and are checked alike.
    YAML::Node root = YAML::Load(FormatJobYaml(spec));
    PD_RETURN_IF_ERROR(SetData(options, root));
    for (const auto& [key, value] : options.settings) {
      DropOthers(root, key);
      if (!IsListed(key, value)) {
        Set(root, key, YAML::Node(value));
      } else if (root[key].IsSequence()) {
        root[key].push_back(value);
      } else {
        root[key] = std::vector<std::string>{value};
      }
    }
    PD_RETURN_IF_ERROR(ApplySets(options.sets, root));
    YAML::Emitter out;
    out << root;
    // The file was parsed before, so that what is wrong now came from a flag.
    const std::string source = "command line";
    absl::StatusOr<JobSpec> result = ParseJobYaml(out.c_str(), source);
    return result.ok() ? result : WithoutLine(result.status(), source);
  } catch (const YAML::Exception& e) {
    return InvalidArgument("--set: not valid YAML: {}", e.msg);
  }
}

absl::Status ReadScheduleFile(JobSpec* spec) {
  if (spec->schedule_file.empty()) return absl::OkStatus();
  absl::StatusOr<std::string> text = ReadFile(spec->schedule_file, kMaxScheduleTableBytes);
  if (!text.ok()) {
    return InvalidArgument("schedule file: {}", std::string(text.status().message().data(),
                                                            text.status().message().size()));
  }
  PD_RETURN_IF_ERROR(SetScheduleTable(*std::move(text), spec->schedule_file, spec));
  spec->schedule_file.clear();
  return absl::OkStatus();
}

bool IsGiven(const JobOptions& options, std::string_view key) {
  return std::ranges::any_of(options.settings, [&](const auto& s) { return s.first == key; });
}

absl::Status CheckSettings(const JobOptions& options) {
  if (!IsGiven(options, "schedule") || !IsGiven(options, "schedule_file")) return absl::OkStatus();
  return UsageError("--schedule and --schedule-file exclude each other; use one");
}

// A plan brings its schedule, unless a flag says which it must be.
absl::Status ReadPlanFile(const JobOptions& options, JobSpec* spec) {
  if (spec->plan_file.empty()) return absl::OkStatus();
  PD_ASSIGN_OR_RETURN(spec->plan, ReadPlan(spec->plan_file));
  if (!IsGiven(options, "schedule") && spec->schedule == JobSpec().schedule)
    spec->schedule = spec->plan->schedule;
  return absl::OkStatus();
}

absl::StatusOr<JobSpec> Combine(const JobOptions& options, std::istream& standard_input) {
  PD_RETURN_IF_ERROR(CheckSettings(options));
  JobSpec spec;
  if (!options.file.empty()) {
    PD_ASSIGN_OR_RETURN(spec, ReadJobFile(options.file, standard_input));
  }
  return WithOverrides(options, spec);
}

absl::Status ReadFiles(const JobOptions& options, JobSpec* spec) {
  PD_RETURN_IF_ERROR(ReadScheduleFile(spec));
  return ReadPlanFile(options, spec);
}

}  // namespace

absl::StatusOr<JobSpec> BuildJobSpec(const JobOptions& options, std::istream& standard_input) {
  PD_ASSIGN_OR_RETURN(JobSpec spec, Combine(options, standard_input));
  if (spec.model.path.empty()) {
    return UsageError("no model: pass --model FILE.onnx, or -f job.yaml with `model:`");
  }
  if (spec.data_folder.empty() && spec.train_columns.empty()) {
    return UsageError(
        "no data: pass --data FOLDER, or --data INPUT=FILE for every input of "
        "the model and --labels FILE");
  }
  PD_RETURN_IF_ERROR(ReadFiles(options, &spec));
  PD_RETURN_IF_ERROR(Validate(spec));
  return spec;
}

absl::StatusOr<JobSpec> BuildLayoutSpec(const JobOptions& options, std::istream& standard_input) {
  PD_ASSIGN_OR_RETURN(JobSpec spec, Combine(options, standard_input));
  PD_RETURN_IF_ERROR(ReadFiles(options, &spec));
  PD_RETURN_IF_ERROR(ValidateLayout(spec));
  return spec;
}

void ApplyColumnOptions(const JobOptions& options, JobSpec* spec) {
  auto is_label = [&](const ColumnSpec& column) {
    return std::any_of(spec->loss.begin(), spec->loss.end(),
                       [&](const LossTerm& term) { return term.label == column.name; });
  };
  auto apply = [&](std::vector<ColumnSpec>* columns, int64_t limit) {
    for (ColumnSpec& column : *columns) {
      if (options.scale >= 0 && !is_label(column)) column.scale = options.scale;
      if (limit > 0) column.limit = limit;
    }
  };
  apply(&spec->train_columns, options.limit);
  apply(&spec->evaluation_columns, options.test_limit);
}

}  // namespace pipedream
