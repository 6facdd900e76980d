#include <fmt/format.h>

#include <filesystem>

#include "common/base/status.h"
#include "common/data/dataset.h"

namespace pipedream {
namespace {

class Finder {
 public:
  explicit Finder(const std::string& folder) : folder_(folder) {}

  // The first of the names, plain or with .gz, that is a file in the folder; empty if none is.
  std::string Find(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      for (const char* ending : {"", ".gz"}) {
        const std::filesystem::path path = std::filesystem::path(folder_) / (name + ending);
        std::error_code error;
        if (std::filesystem::is_regular_file(path, error)) return path.string();
      }
      looked_for_.push_back(name + "[.gz]");
    }
    return "";
  }
  std::string looked_for() const { return fmt::format("{}", fmt::join(looked_for_, ", ")); }

 private:
  const std::string folder_;
  std::vector<std::string> looked_for_;
};

std::vector<std::string> MnistNames(const std::string& split, const std::string& kind,
                                    std::initializer_list<int> ranks) {
  std::vector<std::string> names;
  std::vector<std::string> prefixes = {split};
  if (split == "test") prefixes.push_back("t10k");
  for (const std::string& prefix : prefixes) {
    for (const int rank : ranks) {
      for (const char* form : {"{}-{}-idx{}-ubyte", "{}-{}.idx{}-ubyte", "{}-{}.idx{}"})
        names.push_back(fmt::format(fmt::runtime(form), prefix, kind, rank));
    }
  }
  return names;
}

// Single files hold one input or one label; `kind` is "images" or "labels".
ColumnSpec FindOne(Finder* finder, const std::string& split, const std::string& name, bool label,
                   bool single) {
  ColumnSpec spec;
  spec.name = name;
  spec.path = finder->Find({fmt::format("{}-{}.npy", split, name)});
  if (!spec.path.empty() || !single) return spec;
  spec.path = label ? finder->Find(MnistNames(split, "labels", {1}))
                    : finder->Find(MnistNames(split, "images", {3, 4}));
  if (!spec.path.empty()) {
    if (!label) spec.scale = 1.0 / 255;
    return spec;
  }
  spec.path = finder->Find({split + ".txt"});
  if (spec.path.empty()) return spec;
  spec.format = ColumnFormat::kText;
  spec.shift = label ? 1 : 0;
  if (split != "train") spec.vocabulary_path = finder->Find({"train.txt"});
  return spec;
}

}  // namespace

absl::StatusOr<std::vector<ColumnSpec>> FindColumns(const std::string& folder,
                                                    const std::string& split,
                                                    const std::vector<std::string>& inputs,
                                                    const std::vector<std::string>& labels) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return NotFound("{}: no such folder; data must name a folder or its columns' files", folder);
  }
  std::vector<ColumnSpec> out;
  for (const bool label : {false, true}) {
    const std::vector<std::string>& names = label ? labels : inputs;
    for (const std::string& name : names) {
      Finder finder(folder);
      ColumnSpec spec = FindOne(&finder, split, name, label, names.size() == 1);
      if (spec.path.empty()) {
        return NotFound("{}: no {} data for {} '{}'; looked for {}", folder, split,
                        label ? "label" : "input", name, finder.looked_for());
      }
      out.push_back(std::move(spec));
    }
  }
  return out;
}

}  // namespace pipedream
