// The channels of one stage replica: its neighbours' replicas that share microbatches with it, and
// the collectives it takes part in.
#pragma once

#include <map>
#include <memory>
#include <set>

#include "common/schedule/stage_program.h"
#include "worker/collective/collective.h"
#include "worker/transport/channel.h"

namespace pipedream {

// Whom a program exchanges messages with, by channel.
struct StagePeers {
  std::set<Peer> activation_to;
  std::set<Peer> activation_from;
  std::set<Peer> gradient_to;
  std::set<Peer> gradient_from;
};
StagePeers PeersOf(const StageProgram& program);

struct StageChannels {
  // Activations and evaluation activations share a channel, in the table's order.
  std::map<Peer, std::unique_ptr<SendChannel>> activation_out;
  std::map<Peer, std::unique_ptr<ReceiveChannel>> activation_in;
  std::map<Peer, std::unique_ptr<SendChannel>> gradient_out;
  std::map<Peer, std::unique_ptr<ReceiveChannel>> gradient_in;
  std::unique_ptr<Collective> replicas;  // this stage's replicas; null if there is one
  std::unique_ptr<Collective> workers;   // all workers of the job, for global norms; may be null

  // From any thread.
  void Abort(const absl::Status& cause) {
    for (auto* group : {&activation_out, &gradient_out})
      for (auto& [peer, channel] : *group) channel->Abort(cause);
    for (auto* group : {&activation_in, &gradient_in})
      for (auto& [peer, channel] : *group) channel->Abort(cause);
    if (replicas) replicas->Abort(cause);
    if (workers) workers->Abort(cause);
  }
};

}  // namespace pipedream
