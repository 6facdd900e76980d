#include <csignal>

#include "client/commands/calls.h"
#include "client/exit_codes.h"
#include "client/interrupt.h"
#include "client/render/progress.h"
#include "common/base/status.h"
#include "common/rpc/grpc_channel.h"

namespace pipedream {
namespace {

// A coordinator that comes back within this is followed on.
constexpr Duration kPatience = std::chrono::seconds(60);

class Follower {
 public:
  Follower(const CommandContext& context, const Connection& connection,
           const FollowOptions& options)
      : connection_(connection),
        options_(options),
        clock_(*context.clock),
        printer_(&context.terminal, context.clock, !options.on_event),
        last_sequence_(options.after_sequence),
        end_(clock_.Now() + FromSeconds(options.timeout_s)) {}

  absl::StatusOr<FollowResult> Run() {
    while (true) {
      absl::Status status = WatchOnce();
      printer_.Clear();
      if (interrupt_.signal() != 0) return Detach();
      if (seen_ && IsTerminal(result_.job.state())) {
        result_.exit_code = ExitCodeOf(result_.job.state());
        return result_;
      }
      if (options_.timeout_s > 0 && clock_.Now() >= end_) return TimedOut();
      bool lost = status.ok() || absl::IsUnavailable(status);  // OK: it is shutting down
      if (!lost || !seen_) return status.ok() ? Unavailable("the coordinator stopped") : status;
      if (lost_since_ == Duration(0)) {
        lost_since_ = clock_.Now();
        printer_.Line("connection to the coordinator lost; trying again (the job is not affected)");
      }
      if (clock_.Now() - lost_since_ > kPatience) return status;
      if (interrupt_.WaitFor(0.5)) return Detach();
    }
  }

 private:
  absl::Status WatchOnce() {
    grpc::ClientContext call;
    if (options_.timeout_s > 0) {
      SetTimeout(&call, std::max(Duration(0), end_ - clock_.Now()));
    }
    v1::WatchJobRequest request;
    request.set_job_id(options_.id);
    request.set_after_sequence(last_sequence_);
    auto reader = connection_.stub->WatchJob(&call, request);
    interrupt_.SetCallback([&call] { call.TryCancel(); });
    v1::WatchJobResponse response;
    while (reader->Read(&response)) Take(response);
    absl::Status status = connection_.Result(reader->Finish());
    interrupt_.SetCallback(nullptr);
    return status;
  }

  void Take(const v1::WatchJobResponse& response) {
    if (lost_since_ != Duration(0)) printer_.Line("reconnected");
    lost_since_ = Duration(0);
    seen_ = true;
    for (const v1::JobEvent& event : response.events()) {
      if (event.sequence() <= last_sequence_) continue;
      last_sequence_ = event.sequence();
      if (options_.on_event) {
        printer_.Clear();
        options_.on_event(event);
      }
    }
    if (!response.has_job()) return;
    result_.job = response.job();
    if (options_.progress) printer_.Show(result_.job);
  }

  FollowResult Detach() {
    printer_.Line(
        fmt::format("detached; job {0} goes on\n  follow it: pipedream logs -f {0}\n"
                    "  stop it:   pipedream cancel {0}",
                    options_.id));
    result_.exit_code = interrupt_.signal() == SIGTERM ? kExitTerminated : kExitInterrupted;
    return result_;
  }

  absl::StatusOr<FollowResult> TimedOut() {
    return DeadlineExceeded(
        "job {} did not end within {} s; it goes on. Stop it: pipedream cancel "
        "{}",
        options_.id, options_.timeout_s, options_.id);
  }

  const Connection& connection_;
  const FollowOptions& options_;
  const Clock& clock_;
  InterruptScope interrupt_;
  ProgressPrinter printer_;
  int64_t last_sequence_;
  const Duration end_;
  Duration lost_since_{0};
  bool seen_ = false;
  FollowResult result_;
};

}  // namespace

absl::StatusOr<FollowResult> FollowJob(const CommandContext& context, const Connection& connection,
                                       const FollowOptions& options) {
  return Follower(context, connection, options).Run();
}

}  // namespace pipedream
