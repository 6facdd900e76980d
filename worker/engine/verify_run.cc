#include "worker/engine/verify_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include "common/base/file.h"
#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/schedule/ledger_check.h"
#include "common/schedule/schedules.h"

namespace pipedream {
namespace {

constexpr int64_t kLeastMinibatches = 2;
constexpr int64_t kMaxModelBytes = int64_t{4} << 30;

class Verification {
 public:
  Verification(const VerifyInputs& inputs, Clock* clock) : in_(inputs), clock_(clock) {}

  absl::StatusOr<VerifyReport> Run() {
    PD_ASSIGN_OR_RETURN(programs_, SimulatedPrograms(in_.run));
    shape_ = programs_[0].shape;
    policy_ = programs_[0].policy;
    if (IsSynchronous(policy_)) policy_ = WeightPolicy::kFlush;
    report_.schedule = in_.run.spec.schedule;
    report_.declared = PolicyName(policy_);
    report_.minibatches = shape_.minibatches();
    CheckLedger();
    PD_RETURN_IF_ERROR(Replay());
    return std::move(report_);
  }

 private:
  void Pass(std::string name, std::string detail) {
    report_.checks.push_back({std::move(name), VerifyOutcome::kPassed, std::move(detail)});
  }
  void Fail(std::string name, std::string detail) {
    report_.checks.push_back({std::move(name), VerifyOutcome::kFailed, std::move(detail)});
  }
  void Skip(std::string name, std::string detail) {
    report_.checks.push_back({std::move(name), VerifyOutcome::kSkipped, std::move(detail)});
  }

  void CheckLedger() {
    const IsFilled filled = [this](MicrobatchId i) {
      return TrainingSamples(in_.run.run, i).count > 0;
    };
    if (auto fault = FindMissing(in_.ledger, shape_, filled)) {
      Fail("ledger", fault->ToString());
      Skip("semantics", "the ledger is not complete");
      return;
    }
    int64_t entries = 0;
    for (const StageLedger& stage : in_.ledger.stages) entries += stage.versions.size();
    Pass("ledger", fmt::format("{} stage replicas account for all of their {} microbatches",
                               in_.ledger.stages.size(), entries));
    CheckSemantics(filled);
    if (std::ranges::all_of(shape_.replicas, [](int r) { return r == 1; })) return;
    auto fault = FindUnequalReplicas(in_.ledger);
    if (fault)
      Fail("replicas", fault->ToString());
    else
      Pass("replicas", "replicas of a stage hold equal weights");
  }

  void CheckSemantics(const IsFilled& filled) {
    for (WeightPolicy policy : PoliciesFollowed(in_.ledger, shape_))
      report_.followed.emplace_back(PolicyName(policy));
    // By formula, where the schedule has one, and by the table, which also knows the order.
    std::optional<LedgerFault> fault;
    if (FindSchedule(report_.schedule).ok()) fault = FindDeparture(in_.ledger, shape_, policy_);
    if (!fault) fault = FindDeparture(in_.ledger, programs_, filled);
    if (!fault && std::ranges::find(report_.followed, report_.declared) == report_.followed.end()) {
      Pass("semantics",
           fmt::format("followed the table, which is no {} by the rule", report_.declared));
      return;
    }
    if (!fault) {
      Pass("semantics", fmt::format("followed {}: {}", report_.declared, PolicyMeaning(policy_)));
      return;
    }
    Fail("semantics", fmt::format("left {} at {}; the run as a whole followed {}", report_.declared,
                                  fault->ToString(),
                                  report_.followed.empty()
                                      ? "no known semantics"
                                      : fmt::format("{}", fmt::join(report_.followed, ", "))));
  }

  absl::Status Replay() {
    SimulationOptions options = in_.run;
    options.programs = programs_;
    options.interleaving = 0;
    options.spec.ledger = true;
    const Duration begin = clock_->Now();
    bool cancelled = false;
    options.stop = [&](int64_t minibatches) {
      cancelled = in_.cancelled();
      if (cancelled) return true;
      // The end of the run is more than its last update.
      if (minibatches == shape_.minibatches()) return false;
      if (in_.minibatches > 0) return minibatches >= in_.minibatches;
      return minibatches >= kLeastMinibatches && ToSeconds(clock_->Now() - begin) >= in_.budget_s;
    };
    absl::StatusOr<SimulationResult> replay = Simulate(options);
    if (cancelled) return absl::CancelledError("the caller has gone");
    report_.replay_s = ToSeconds(clock_->Now() - begin);
    if (ReasonOf(replay.status()).starts_with("NON_FINITE")) {
      const absl::string_view message = replay.status().message();
      Fail("losses",
           fmt::format("the replay stopped: {}", std::string(message.data(), message.size())));
      return absl::OkStatus();
    }
    PD_RETURN_IF_ERROR(replay.status());
    report_.replayed = replay->minibatches;
    CompareLosses(*replay);
    CompareWeights(*replay);
    return CompareResult(*replay);
  }

  // A reported point may cover several minibatches. Sums of float losses times sample counts are
  // exact in double, so that it does not matter who added them up in which order.
  void CompareLosses(const SimulationResult& replay) {
    std::map<int64_t, LossSum> replayed;
    for (const LossSum& sum : replay.loss_sums)
      if (sum.last_minibatch < replay.minibatches) replayed[sum.first_minibatch] = sum;
    int64_t compared = 0;
    for (const LossSum& point : in_.losses) {
      if (point.last_minibatch >= replay.minibatches) continue;
      LossSum sum;
      auto it = replayed.lower_bound(point.first_minibatch);
      for (; it != replayed.end() && it->first <= point.last_minibatch; ++compared) {
        sum.loss_sum += it->second.loss_sum;
        sum.samples += it->second.samples;
        it = replayed.erase(it);
      }
      if (sum.loss_sum == point.loss_sum && sum.samples == point.samples) continue;
      const std::string place =
          point.first_minibatch == point.last_minibatch
              ? fmt::format("minibatch {}", point.first_minibatch)
              : fmt::format("minibatches {} to {}", point.first_minibatch, point.last_minibatch);
      Fail("losses", fmt::format("{}: the run has {} over {} samples, the replay {} over {}", place,
                                 point.loss_sum, point.samples, sum.loss_sum, sum.samples));
      return;
    }
    if (compared == 0)
      Skip("losses", "no reported loss lies within the minibatches that were replayed");
    else
      Pass("losses",
           fmt::format("equal bit for bit in {} of {} minibatches", compared, report_.minibatches));
  }

  void CompareWeights(const SimulationResult& replay) {
    int64_t compared = 0;
    if (auto fault = FindOtherWeights(in_.ledger, replay.ledger, &compared))
      Fail("weights", fault->ToString());
    else if (compared == 0)
      Skip("weights", "the ledger has no digest of the versions that were replayed");
    else
      Pass("weights", fmt::format("equal digests of {} versions, over all stages", compared));
  }

  absl::Status CompareResult(const SimulationResult& replay) {
    if (replay.minibatches < shape_.minibatches()) {
      Skip("result", fmt::format("{} of {} minibatches were replayed", replay.minibatches,
                                 shape_.minibatches()));
      return absl::OkStatus();
    }
    const std::string path = in_.work_folder + "/replayed.onnx";
    PD_RETURN_IF_ERROR(in_.run.model->Export(replay.weights, path));
    auto bytes = ReadFile(path, kMaxModelBytes);
    std::remove(path.c_str());
    PD_RETURN_IF_ERROR(bytes.status());
    if (Sha256Hex(*bytes) == in_.result_sha256)
      Pass("result", "the replay exports the same model, byte for byte");
    else
      Fail("result", fmt::format("the replay exports another model: {}, the job's is {}",
                                 Sha256Hex(*bytes), in_.result_sha256));
    return absl::OkStatus();
  }

  const VerifyInputs& in_;
  Clock* const clock_;
  ScheduleShape shape_;
  WeightPolicy policy_ = WeightPolicy::kFlush;
  std::vector<StageProgram> programs_;
  VerifyReport report_;
};

}  // namespace

absl::StatusOr<VerifyReport> VerifyRun(const VerifyInputs& inputs, Clock* clock) {
  return Verification(inputs, clock).Run();
}

}  // namespace pipedream
