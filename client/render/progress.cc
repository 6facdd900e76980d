#include "client/render/progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <vector>

#include "client/render/table.h"
#include "common/base/units.h"

namespace pipedream {
namespace {

constexpr int kBarCells = 24;
constexpr int kLeastBarCells = 8;

std::string EpochOf(const v1::JobProgress& progress) {
  int64_t epoch = std::min(progress.epoch() + 1, progress.epochs());
  return fmt::format("epoch {}/{}", epoch, progress.epochs());
}

// What follows the bar, most important first.
std::vector<std::string> Parts(const v1::JobProgress& p) {
  std::vector<std::string> parts = {fmt::format("{}/{}", p.minibatch(), p.minibatches())};
  if (p.minibatch() > 0 && !std::isnan(p.loss()))
    parts.push_back(fmt::format("loss {:.4f}", p.loss()));
  if (p.samples_per_s() > 0) {
    double rate = p.samples_per_s();
    parts.push_back(rate < 100 ? fmt::format("{:.1f} samples/s", rate)
                               : fmt::format("{:.0f} samples/s", rate));
  }
  if (p.eta_s() > 0) parts.push_back(fmt::format("ETA {}", FormatSeconds(p.eta_s())));
  return parts;
}

std::string Bar(int64_t done, int64_t total, int cells) {
  int full = total > 0 ? static_cast<int>(std::clamp<double>(
                             static_cast<double>(done) * cells / total, 0, cells))
                       : 0;
  std::string bar(full, '=');
  if (full < cells) bar += '>';
  bar.resize(cells, ' ');
  return "[" + bar + "]";
}

std::string CutToWidth(const std::string& text, int width) {
  if (DisplayWidth(text) <= width) return text;
  std::string cut;
  int columns = 0;
  for (char c : text) {
    bool starts = (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    if (starts && ++columns > width) break;
    cut += c;
  }
  return cut;
}

std::string StateLine(const v1::Job& job) {
  std::string line = JobStateName(job.state());
  if (!job.reason().empty()) line += ": " + OneLine(job.reason());
  return line;
}

}  // namespace

std::string JobStateName(v1::JobState state) {
  std::string name = v1::JobState_Name(state);
  constexpr std::string_view kPrefix = "JOB_STATE_";
  return name.empty() ? fmt::format("STATE_{}", static_cast<int>(state))
                      : name.substr(kPrefix.size());
}

bool IsTerminal(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED ||
         state == v1::JOB_STATE_CANCELLED;
}

std::string FormatProgressBar(const v1::Job& job, int width) {
  if (job.state() != v1::JOB_STATE_RUNNING) return CutToWidth(StateLine(job), width);
  const v1::JobProgress& progress = job.progress();
  std::vector<std::string> parts = Parts(progress);
  for (size_t keep = parts.size();; --keep) {
    std::string tail;
    for (size_t i = 0; i < keep; ++i) tail += " " + parts[i];
    std::string head = EpochOf(progress);
    // " [", "]" around the bar.
    int room = width - DisplayWidth(head) - DisplayWidth(tail) - 3;
    if (room >= kLeastBarCells) {
      return head + " " +
             Bar(progress.minibatch(), progress.minibatches(), std::min(room, kBarCells)) + tail;
    }
    if (room + 3 >= 0 || keep == 0) return CutToWidth(head + tail, width);
  }
}

std::string FormatProgressPlain(const v1::Job& job) {
  if (job.state() != v1::JOB_STATE_RUNNING) return StateLine(job);
  std::string line = EpochOf(job.progress()) + " step";
  for (const std::string& part : Parts(job.progress())) line += " " + part;
  return line;
}

std::string FormatAccuracy(const v1::EvaluationResult& result) {
  if (result.correct() < 0 || result.positions() <= 0) return "";
  return fmt::format("{:.2f} %", 100.0 * static_cast<double>(result.correct()) /
                                     static_cast<double>(result.positions()));
}

std::string FormatEvaluation(const v1::EvaluationResult& result, int64_t epochs) {
  std::string accuracy = FormatAccuracy(result);
  double loss = result.samples() > 0 ? result.loss_sum() / static_cast<double>(result.samples())
                                     : std::nan("");
  return fmt::format("epoch {}/{}: {}test loss {:.4f} ({} samples)", result.epoch() + 1, epochs,
                     accuracy.empty() ? "" : fmt::format("test accuracy {}, ", accuracy), loss,
                     result.samples());
}

std::string FormatEvent(const v1::JobEvent& event) {
  std::time_t seconds = event.time_us() / 1'000'000;
  std::tm utc;
  gmtime_r(&seconds, &utc);
  std::string level = event.level() == "info" ? "" : " " + event.level();
  return fmt::format("{:02}:{:02}:{:02} {}{}: {}", utc.tm_hour, utc.tm_min, utc.tm_sec,
                     event.source(), level, OneLine(event.message()));
}

ProgressPrinter::ProgressPrinter(const Terminal* terminal, const Clock* clock, bool states)
    : terminal_(terminal), clock_(clock), states_(states) {}

ProgressPrinter::~ProgressPrinter() { Clear(); }

bool ProgressPrinter::bar() const {
  return terminal_->progress == ProgressMode::kAuto && terminal_->err_is_tty;
}

void ProgressPrinter::Clear() {
  if (drawn_) *terminal_->err << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

void ProgressPrinter::Line(const std::string& text) {
  Clear();
  *terminal_->err << text << std::endl;
}

void ProgressPrinter::Show(const v1::Job& job) {
  if (terminal_->progress == ProgressMode::kNone) return;
  for (; evaluations_ < job.progress().evaluations_size(); ++evaluations_) {
    Line(FormatEvaluation(job.progress().evaluations(evaluations_), job.progress().epochs()));
  }
  bool changed = job.state() != state_ || job.reason() != reason_;
  state_ = job.state();
  reason_ = job.reason();
  if (bar()) {
    Clear();
    // One less than the width: a full last column makes some terminals wrap.
    *terminal_->err << FormatProgressBar(job, std::max(1, terminal_->width - 1)) << std::flush;
    drawn_ = true;
    return;
  }
  // While it runs the reason is not news; the numbers are, now and then.
  if (job.state() == v1::JOB_STATE_RUNNING) {
    if (clock_->Now() < next_plain_ || job.progress().minibatch() == 0) return;
    next_plain_ = clock_->Now() + kPlainInterval;
    Line(FormatProgressPlain(job));
  } else if (changed && states_) {
    Line(FormatProgressPlain(job));
  }
}

}  // namespace pipedream
