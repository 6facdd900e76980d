// The channels of one worker: to the replicas of other stages that share microbatches with its
// stages, and the collectives it takes part in.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "common/schedule/stage_program.h"
#include "worker/collective/collective.h"
#include "worker/transport/channel.h"

namespace pipedream {

// Whom one of a program's stages exchanges messages with, by channel.
struct StagePeers {
  std::set<Peer> activation_to;
  std::set<Peer> activation_from;
  std::set<Peer> gradient_to;
  std::set<Peer> gradient_from;
};
StagePeers PeersOf(const StageProgram& program, int chunk);

struct StageChannels {
  // Activations and evaluation activations share a channel, in the table's order.
  std::map<Peer, std::unique_ptr<SendChannel>> activation_out;
  std::map<Peer, std::unique_ptr<ReceiveChannel>> activation_in;
  std::map<Peer, std::unique_ptr<SendChannel>> gradient_out;
  std::map<Peer, std::unique_ptr<ReceiveChannel>> gradient_in;
};

// Workers of a collective, in the order of their ranks; one or none: nothing to open.
std::vector<Peer> ReplicaGroup(const ScheduleShape& shape, StageId stage);
std::vector<Peer> TieGroup(const ScheduleShape& shape);
std::vector<Peer> NormGroup(const ScheduleShape& shape);  // empty without a global norm

struct WorkerChannels {
  std::vector<StageChannels> stages;     // by chunk
  std::unique_ptr<Collective> replicas;  // of this worker's stages; null if there is one
  std::unique_ptr<Collective> ties;      // the workers of tied stages; null if it has none
  std::unique_ptr<Collective> workers;   // all workers of the job, for global norms; may be null

  // From any thread.
  void Abort(const absl::Status& cause) {
    for (StageChannels& stage : stages) {
      for (auto* group : {&stage.activation_out, &stage.gradient_out})
        for (auto& [peer, channel] : *group) channel->Abort(cause);
      for (auto* group : {&stage.activation_in, &stage.gradient_in})
        for (auto& [peer, channel] : *group) channel->Abort(cause);
    }
    for (auto* collective : {&replicas, &ties, &workers})
      if (*collective != nullptr) (*collective)->Abort(cause);
  }
};

}  // namespace pipedream
