// The text form of a ledger (ledger.h).
#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <utility>

#include "common/base/status.h"
#include "common/schedule/ledger.h"

namespace pipedream {
namespace {

void FormatEntry(const LedgerEntry& e, std::string* out) {
  fmt::format_to(std::back_inserter(*out), "{}:{},{},{}>{}", e.microbatch, e.forward, e.backward,
                 e.weight, e.update);
}

void FormatLoop(const LedgerLoop& loop, std::string* out) {
  if (loop.body.empty()) {
    FormatEntry(loop.first, out);
  } else {
    for (size_t i = 0; i < loop.body.size(); ++i) {
      *out += i == 0 ? '(' : ' ';
      FormatLoop(loop.body[i], out);
    }
    *out += ')';
  }
  if (loop.repeat == 1) return;
  fmt::format_to(std::back_inserter(*out), "*{}+", loop.repeat);
  FormatEntry(loop.stride, out);
}

// Of one line.
class LineParser {
 public:
  explicit LineParser(std::string_view text) : begin_(text.data()), rest_(text) {}

  absl::StatusOr<LedgerLoop> Loop(int depth = 1) {
    if (depth > VersionLedger::kMaxDepth)
      return InvalidArgument("column {}: loops are nested deeper than {}", column(),
                             VersionLedger::kMaxDepth);
    LedgerLoop loop;
    if (Take("(")) {
      do {
        PD_ASSIGN_OR_RETURN(LedgerLoop part, Loop(depth + 1));
        loop.body.push_back(std::move(part));
      } while (Take(" "));
      if (!Take(")")) return Expected("' ' or ')'");
      loop.first = loop.body[0].first;
    } else {
      PD_ASSIGN_OR_RETURN(loop.first, Entry());
    }
    if (!Take("*")) return loop;
    PD_RETURN_IF_ERROR(Number("how often it repeats", &loop.repeat));
    if (!Take("+")) return Expected("'+'");
    PD_ASSIGN_OR_RETURN(loop.stride, Entry());
    return loop;
  }

  template <typename T>
  absl::Status Number(std::string_view what, T* value, int base = 10) {
    auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), *value, base);
    if (error != std::errc()) return Expected(what);
    rest_.remove_prefix(end - rest_.data());
    return absl::OkStatus();
  }
  bool Take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  absl::Status Expected(std::string_view what) const {
    return InvalidArgument("column {}: expected {}, found '{}'", column(), what,
                           rest_.substr(0, 20));
  }
  absl::Status End() const { return rest_.empty() ? absl::OkStatus() : Expected("the line's end"); }

 private:
  size_t column() const { return rest_.data() - begin_ + 1; }

  absl::StatusOr<LedgerEntry> Entry() {
    LedgerEntry e;
    PD_RETURN_IF_ERROR(Number("a microbatch", &e.microbatch));
    if (!Take(":")) return Expected("':'");
    PD_RETURN_IF_ERROR(Number("a version", &e.forward));
    if (!Take(",")) return Expected("','");
    PD_RETURN_IF_ERROR(Number("a version", &e.backward));
    if (!Take(",")) return Expected("','");
    PD_RETURN_IF_ERROR(Number("a version", &e.weight));
    if (!Take(">")) return Expected("'>'");
    PD_RETURN_IF_ERROR(Number("an update", &e.update));
    return e;
  }

  const char* begin_;
  std::string_view rest_;
};

class LedgerParser {
 public:
  absl::StatusOr<RunLedger> Parse(std::string_view text) {
    for (int number = 1; !text.empty(); ++number) {
      const size_t end = text.find('\n');
      absl::Status status = Line(text.substr(0, end));
      if (!status.ok()) return Annotate(status, fmt::format("ledger, line {}", number));
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    PD_RETURN_IF_ERROR(EndStage());
    return MergeLedgers(std::move(stages_));
  }

 private:
  absl::Status Line(std::string_view text) {
    LineParser line(text);
    if (line.Take("stage ")) {
      PD_RETURN_IF_ERROR(EndStage());
      int stage = 0, replica = 0;
      PD_RETURN_IF_ERROR(line.Number("a stage", &stage));
      if (!line.Take(" replica ")) return line.Expected("' replica '");
      PD_RETURN_IF_ERROR(line.Number("a replica", &replica));
      stages_.push_back({StageId(stage), ReplicaId(replica), {}, {}});
      return line.End();
    }
    if (stages_.empty()) return line.Expected("'stage '");
    if (line.Take("digest ")) {
      WeightDigest digest;
      PD_RETURN_IF_ERROR(line.Number("a version", &digest.version));
      if (!line.Take(" ")) return line.Expected("' '");
      PD_RETURN_IF_ERROR(line.Number("a hash", &digest.hash, 16));
      stages_.back().digests.push_back(digest);
      return line.End();
    }
    if (line.Take("omitted ")) {
      PD_RETURN_IF_ERROR(line.Number("how many", &omitted_));
      return line.End();
    }
    PD_ASSIGN_OR_RETURN(LedgerLoop loop, line.Loop());
    loops_.push_back(std::move(loop));
    return line.End();
  }

  absl::Status EndStage() {
    if (stages_.empty()) return absl::OkStatus();
    PD_ASSIGN_OR_RETURN(stages_.back().versions,
                        VersionLedger::FromLoops(std::exchange(loops_, {}), omitted_));
    omitted_ = 0;
    return absl::OkStatus();
  }

  std::vector<StageLedger> stages_;
  std::vector<LedgerLoop> loops_;  // of the last stage
  int64_t omitted_ = 0;
};

}  // namespace

std::string FormatLedger(const RunLedger& ledger) {
  std::string text;
  for (const StageLedger& stage : ledger.stages) {
    fmt::format_to(std::back_inserter(text), "stage {} replica {}\n", stage.stage, stage.replica);
    for (const LedgerLoop& loop : stage.versions.loops()) {
      FormatLoop(loop, &text);
      text += '\n';
    }
    if (stage.versions.omitted() > 0)
      fmt::format_to(std::back_inserter(text), "omitted {}\n", stage.versions.omitted());
    for (const WeightDigest& digest : stage.digests)
      fmt::format_to(std::back_inserter(text), "digest {} {:016x}\n", digest.version, digest.hash);
  }
  return text;
}

absl::StatusOr<RunLedger> ParseLedger(std::string_view text) { return LedgerParser().Parse(text); }

}  // namespace pipedream
