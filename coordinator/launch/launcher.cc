#include "coordinator/launch/launcher.h"

#include <fmt/format.h>

#include <future>
#include <random>
#include <utility>

#include "common/base/log.h"
#include "common/base/status.h"
#include "coordinator/launch/collect_result.h"
#include "coordinator/launch/plan_run.h"
#include "coordinator/store/job_files.h"

namespace pipedream {
namespace {

// 128 bits from the system's generator.
std::string RandomSecret() {
  std::random_device random;
  std::string secret;
  for (int i = 0; i < 4; ++i) secret += fmt::format("{:08x}", static_cast<uint32_t>(random()));
  return secret;
}

}  // namespace

Launcher::Launcher(LauncherOptions options, WorkerClients* clients, BlobStore* blobs,
                   std::function<void(Event)> post)
    : options_(std::move(options)), clients_(clients), blobs_(blobs), post_(std::move(post)) {}

Launcher::~Launcher() {
  MutexLock lock(mutex_);
  for (auto& [job, token] : tokens_) token->Cancel();
}

CallOptions Launcher::Options(const std::string& job_id, Duration timeout) {
  MutexLock lock(mutex_);
  std::shared_ptr<CancelToken>& token = tokens_[job_id];
  if (token == nullptr) token = std::make_shared<CancelToken>();
  return {timeout, token};
}

void Launcher::Run(const CancelCalls& effect) {
  MutexLock lock(mutex_);
  auto it = tokens_.find(effect.job_id);
  if (it == tokens_.end()) return;
  it->second->Cancel();
  tokens_.erase(it);
}

void Launcher::Run(const StartProfile& effect) {
  CallOptions options = Options(effect.job.ref.job_id, options_.profile_timeout);
  pool_.Run([this, effect, options] {
    auto client = clients_->Get(effect.worker);
    absl::StatusOr<Profile> profile =
        client.ok() ? (*client)->MeasureProfile(effect.job, options) : client.status();
    post_(ProfileDone{effect.job.ref, effect.worker.device_kind, std::move(profile),
                      effect.worker.id});
  });
}

void Launcher::Run(const MeasureLinks& effect) {
  CallOptions options = Options(effect.job.ref.job_id, options_.probe_timeout);
  pool_.Run([this, effect, options] {
    post_(LinksMeasured{effect.job.ref, Measure(effect, options)});
  });
}

// One after the other, so that they do not disturb each other.
absl::StatusOr<std::vector<LinkMeasurement>> Launcher::Measure(const MeasureLinks& effect,
                                                               const CallOptions& options) {
  std::vector<LinkMeasurement> links;
  for (size_t i = 0; i < effect.probes.size(); ++i) {
    const LinkProbe& probe = effect.probes[i];
    std::string name =
        fmt::format("{}/{}/probe-{}", effect.job.ref.job_id, effect.job.ref.attempt, i);
    auto result = ProbeBothEnds(probe, name, effect.job.spec->transport, options);
    if (!result.ok())
      return Annotate(result.status(),
                      fmt::format("link from {} to {}", probe.from.id, probe.to.id));
    links.push_back({probe.from.data_address.host_id, probe.to.data_address.host_id,
                     result->bandwidth_bytes_per_s, result->latency_s, result->transport});
  }
  return links;
}

absl::StatusOr<ProbeResult> Launcher::ProbeBothEnds(const LinkProbe& probe, const std::string& name,
                                                    const std::string& transport,
                                                    const CallOptions& options) {
  PD_ASSIGN_OR_RETURN(std::shared_ptr<WorkerClient> from, clients_->Get(probe.from));
  PD_ASSIGN_OR_RETURN(std::shared_ptr<WorkerClient> to, clients_->Get(probe.to));
  std::string secret = RandomSecret();
  auto answered = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> answer = answered->get_future();
  bool runs = pool_.Run([=] {
    answered->set_value(
        to->ProbeLink({name, secret, probe.from.data_address, false, transport}, options).status());
  });
  if (!runs) return absl::CancelledError("the coordinator stops");
  auto measured = from->ProbeLink({name, secret, probe.to.data_address, true, transport}, options);
  absl::Status other = answer.get();
  if (measured.ok() && !other.ok()) return other;
  return measured;
}

void Launcher::Run(const ComputePlan& effect) {
  pool_.Run([this, effect] {
    post_(PlanDone{effect.job.ref, options_.plan ? options_.plan(effect) : Plan(effect)});
  });
}

void Launcher::Run(const ReconsiderPlan& effect) {
  pool_.Run([this, effect] {
    post_(PlanReconsidered{effect.job.ref, options_.reconsider ? options_.reconsider(effect)
                                                               : Reconsider(effect)});
  });
}

absl::StatusOr<PlannedRun> Launcher::Plan(const ComputePlan& effect) {
  PD_ASSIGN_OR_RETURN(JobFiles files, JobFiles::Open(*effect.job.spec, blobs_, options_.data_root));
  PD_ASSIGN_OR_RETURN(std::shared_ptr<const Model> model, Model::Load(files.model_path()));
  return PlanRun(effect, *model);
}

void Launcher::Run(const PrepareStages& effect) {
  CallOptions options = Options(effect.job.ref.job_id, options_.prepare_timeout);
  std::string secret = RandomSecret();
  for (size_t i = 0; i < effect.members.size(); ++i) {
    pool_.Run([this, effect, i, secret, options] {
      const WorkerInfo& worker = effect.members[i].worker;
      auto client = clients_->Get(worker);
      absl::StatusOr<int64_t> bytes =
          client.ok() ? (*client)->PrepareStage({effect.job, effect.plan, (*effect.programs)[i],
                                                 effect.members, secret},
                                                options)
                      : client.status();
      post_(StagePrepared{effect.job.ref, worker.id, std::move(bytes)});
    });
  }
}

void Launcher::Run(const StartStages& effect) {
  CallOptions options = Options(effect.ref.job_id, options_.start_timeout);
  for (const JobMember& member : effect.members) {
    pool_.Run([this, ref = effect.ref, worker = member.worker, options] {
      auto client = clients_->Get(worker);
      absl::Status status = client.ok() ? (*client)->StartStage(ref, options) : client.status();
      post_(StageStarted{ref, worker.id, std::move(status)});
    });
  }
}

void Launcher::Run(const AbortStage& effect) {
  pool_.Run([this, effect] {
    auto client = clients_->Get(effect.worker);
    absl::Status status =
        client.ok() ? (*client)->AbortStage(effect.ref, effect.cause, {options_.abort_timeout, {}})
                    : client.status();
    post_(StageAborted{effect.ref, effect.worker.id, std::move(status)});
  });
}

void Launcher::Run(const StoreLedger& effect) {
  pool_.Run([this, effect] {
    absl::Status stored = blobs_->AddText(effect.ledger).status();
    if (!stored.ok())
      LogWarning("the ledger of job {} is not kept: {}", effect.job_id, stored.ToString());
  });
}

void Launcher::Run(const StartVerify& effect) {
  CallOptions options = Options(effect.order->id, options_.verify_timeout);
  pool_.Run([this, effect, options] {
    auto client = clients_->Get(effect.worker);
    absl::StatusOr<VerifyReport> report =
        client.ok() ? (*client)->VerifyRun(*effect.order, options) : client.status();
    post_(VerifyDone{effect.order->id, std::move(report)});
  });
}

void Launcher::Run(const CollectResult& effect) {
  CallOptions options = Options(effect.job.ref.job_id, options_.collect_timeout);
  pool_.Run([this, effect, options] {
    post_(WeightsCollected{
        effect.job.ref, CollectAndExport(effect, clients_, blobs_, options_.data_root, options)});
  });
}

}  // namespace pipedream
