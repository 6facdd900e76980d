// The rules between workers (V5, V6, V9 of validate.h): an abstract execution of all programs, in
// which an instruction takes no time but waits for messages, channel slots and the other members of
// collectives. R waits for all members; T and N only begin, and an update waits for those it needs
// (N, on the worker that speaks for the tied parameters, for its T).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/schedule/stream.h"
#include "common/schedule/worker_rules.h"

namespace pipedream {

class LinkRules {
 public:
  enum class Outcome { kDone, kMustWait, kFault };

  // Borrows the shape. REQUIRES: channel_slots >= 1 (of a channel between neighbour stages).
  LinkRules(const ScheduleShape& shape, WeightPolicy policy, int channel_slots);

  // Tries to run `instruction` as the next one of `worker`. kMustWait: try again after WokenBy has
  // named it. kFault: see fault().
  Outcome Try(int worker, const Instruction& instruction);
  // What the instruction waits for besides messages, once it may run: the group (GroupOf) and the
  // number of the collective, or nothing.
  struct Wait {
    int group = 0;
    int64_t number = 0;
  };
  std::vector<Wait> WaitsOf(int worker, const Instruction& instruction) const;
  // Groups of collectives: of each stage's replicas, of the tied stages' workers, of all workers.
  int groups() const { return static_cast<int>(groups_.size()); }
  // REQUIRES: R, T or N.
  int GroupOf(int worker, const Instruction& instruction) const;
  size_t members(int group) const { return groups_[group].members.size(); }

  // The program of `worker` has ended.
  void End(int worker) { ended_[worker] = true; }
  // Takes the workers that may go on because of what has run since the last call.
  std::vector<int> TakeWoken() { return std::exchange(woken_, {}); }

  const Fault& fault() const { return fault_; }
  // Why `worker` waits: the rule is V5 or V6 if its partner's program is over, else V9.
  Fault Blocked(int worker, const Instruction& instruction) const;
  // The fault of all programs having ended, with the sending worker.
  std::optional<std::pair<int, Fault>> Finish() const;

 private:
  struct Channel {
    int from = 0, to = 0;  // workers
    size_t slots = 0;
    std::deque<Instruction> messages;
  };
  struct Group {
    std::vector<int> members;       // workers
    std::vector<int64_t> arrivals;  // of each member: it has come to collectives 0 .. arrivals-1
    int64_t complete = 0;           // collectives that all have come to
    bool Waits(int64_t number) const { return number >= complete; }
  };

  Outcome TrySend(int worker, const Instruction& instruction);
  Outcome TryReceive(int worker, const Instruction& instruction);
  void Arrive(int worker, int group);
  Outcome Fail(std::string_view rule, std::string text);
  Channel& ChannelOf(int worker, const Instruction& instruction);
  Peer StageReplica(int worker, int chunk) const;

  const ScheduleShape& shape_;
  WeightPolicy policy_;
  std::vector<Peer> workers_;
  std::vector<std::vector<StageId>> stages_;  // of each worker, by chunk
  ChannelIndex index_;
  std::vector<Channel> channels_;
  std::vector<Group> groups_;
  std::vector<bool> arrived_;  // the worker has come to the collective it stands at
  std::vector<bool> ended_;
  std::vector<int> woken_;
  Fault fault_;
};

}  // namespace pipedream
