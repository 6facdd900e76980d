#include "coordinator/job/profile_key.h"

#include <fmt/format.h>

#include "common/base/sha256.h"

namespace pipedream {

std::string ProfileKey(const JobSpec& spec, const RunShape& run, std::string_view device_kind,
                       std::string_view worker_version) {
  // Every part ends in a line break and strings are preceded by their length: no two jobs can write
  // the same text with different parts.
  std::string text;
  auto add = [&](std::string_view part) { text += fmt::format("{}:{}\n", part.size(), part); };
  add("profile 2");
  add(spec.model.sha256.empty() ? spec.model.path : spec.model.sha256);
  for (const FileReference& file : spec.model_data) {
    add(file.path);
    add(file.sha256);
  }
  for (const LossTerm& term : spec.loss) {
    add(fmt::format("loss {}", static_cast<int>(term.kind)));
    add(term.output);
    add(term.label);
  }
  const OptimizerSpec& o = spec.optimizer;
  add(fmt::format("{} {} {} {}", ToString(o.kind), o.momentum != 0, o.nesterov, o.clip_norm != 0));
  add("train");
  for (const std::string& pattern : spec.train_patterns) add(pattern);
  add("freeze");
  for (const std::string& pattern : spec.freeze_patterns) add(pattern);
  add(fmt::format("{}", run.microbatch_size()));
  add(device_kind);
  add(worker_version);
  return Sha256Hex(text);
}

}  // namespace pipedream
