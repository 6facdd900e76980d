// A running job in one line. Pure text; printing is ProgressPrinter's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "client/terminal.h"
#include "common/base/clock.h"
#include "pipedream/v1/job.pb.h"

namespace pipedream {

// "RUNNING".
std::string JobStateName(v1::JobState state);
bool IsTerminal(v1::JobState state);

// "epoch 3/8 [====>     ] 1200/2000 loss 0.3456 1234 samples/s ETA 12s"; exactly one line of at
// most `width` columns: the bar shrinks first and then goes, then trailing parts go.
std::string FormatProgressBar(const v1::Job& job, int width);
// The same without bar, for logs; before the run: the state and why.
std::string FormatProgressPlain(const v1::Job& job);
// "epoch 3/8: test accuracy 87.12 %, test loss 0.3456 (10000 samples)".
std::string FormatEvaluation(const v1::EvaluationResult& result, int64_t epochs);
// "12:34:56 worker-1 warning: message"; the level is left out at info.
std::string FormatEvent(const v1::JobEvent& event);
// "87.12 %"; empty if nothing is counted.
std::string FormatAccuracy(const v1::EvaluationResult& result);

// Prints to terminal.err what changed: on a terminal a bar that is redrawn, with evaluations, state
// changes and events above it; elsewhere plain lines, progress every few seconds at most. Not
// thread-safe. Borrows the terminal and the clock.
class ProgressPrinter {
 public:
  static constexpr Duration kPlainInterval = std::chrono::seconds(5);
  // `states`: changes of state get a line (off where the job's events are printed, which say so
  // too).
  ProgressPrinter(const Terminal* terminal, const Clock* clock, bool states = true);
  // Clears the bar.
  ~ProgressPrinter();

  void Show(const v1::Job& job);
  // A line that stays.
  void Line(const std::string& text);
  // Takes the bar off the screen; the next Show draws it again.
  void Clear();

 private:
  bool bar() const;
  const Terminal* terminal_;
  const Clock* clock_;
  const bool states_;
  bool drawn_ = false;
  v1::JobState state_ = v1::JOB_STATE_UNSPECIFIED;
  std::string reason_;
  int evaluations_ = 0;
  Duration next_plain_{0};
};

}  // namespace pipedream
