#include "worker/engine/ledger_recorder.h"

#include <algorithm>
#include <utility>

#include "common/base/hash64.h"
#include "common/base/status.h"
#include "worker/engine/relayout.h"

namespace pipedream {

StageRecorder::StageRecorder(const StageState* stage, const KernelBackend* backend)
    : stage_(*stage),
      backend_(*backend),
      updates_(UpdateCount(stage->shape, stage->policy, stage->stage)),
      in_flight_(stage->slots.size()),
      ledger_{stage->stage, stage->replica, {}, {}} {
  ledger_.digests.reserve(kMaxDigests);
}

void StageRecorder::Gradient(int32_t slot, MicrobatchId microbatch, WeightVersion read, bool fused,
                             int64_t update) {
  LedgerEntry& entry = in_flight_[slot];
  entry.microbatch = microbatch.value();
  if (fused) entry.backward = read.value();
  entry.weight = read.value();
  entry.update = update;
  ledger_.versions.Append(entry);
}

absl::Status StageRecorder::Published() {
  const int64_t version = stage_.weights->latest().value();
  if (!KeepsDigest(version, updates_)) return absl::OkStatus();
  PD_ASSIGN_OR_RETURN(uint64_t hash, DigestOf(stage_, stage_.weights->latest_data(), backend_));
  ledger_.digests.push_back({version, hash});
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LedgerRecorder>> LedgerRecorder::Create(
    const std::vector<StageState*>& stages, const KernelBackend* backend) {
  auto recorder = std::make_unique<LedgerRecorder>();
  for (const StageState* stage : stages) {
    recorder->stages_.emplace_back(stage, backend);
    PD_RETURN_IF_ERROR(recorder->stages_.back().Published());
  }
  return recorder;
}

std::vector<StageLedger> LedgerRecorder::ledgers() const {
  std::vector<StageLedger> out;
  for (const StageRecorder& stage : stages_) out.push_back(stage.ledger());
  return out;
}

absl::StatusOr<uint64_t> DigestOf(const StageState& stage, const std::byte* version,
                                  const KernelBackend& backend) {
  std::vector<const StoredTensor*> by_name;
  for (const StoredTensor& parameter : stage.layout.parameters) by_name.push_back(&parameter);
  std::ranges::sort(by_name, {}, &StoredTensor::name);
  std::vector<std::byte> row_major;
  uint64_t hash = 0;
  for (const StoredTensor* parameter : by_name) {
    const TensorSpec plain = TensorSpec::Plain(parameter->spec.dtype, parameter->spec.shape);
    const std::byte* data = version + parameter->offset;
    if (!SameLayout(parameter->spec, plain)) {
      row_major.resize(plain.bytes);
      PD_RETURN_IF_ERROR(Relayout(backend, parameter->spec, plain, data, row_major.data()));
      data = row_major.data();
    }
    hash = Hash64(parameter->name.data(), parameter->name.size(), hash);
    hash = Hash64(data, plain.bytes, hash);
  }
  return hash;
}

}  // namespace pipedream
