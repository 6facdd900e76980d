// The rules between workers (V5, V6, V9 of validate.h): an abstract execution of all programs, in
// which an instruction takes no time but waits for messages, channel slots and the other members of
// collectives.
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

  // Borrows the shape. REQUIRES: channel_slots >= 1.
  LinkRules(const ScheduleShape& shape, int channel_slots);

  // Tries to run `instruction` as the next one of `worker`. kMustWait: try again after WokenBy has
  // named it. kFault: see fault().
  Outcome Try(int worker, const Instruction& instruction);
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
    std::deque<Instruction> messages;
  };
  // One per stage, and one of all workers.
  struct Group {
    std::vector<int> members;
    int64_t arrived = 0;
    int64_t number = 0;
    int64_t generation = 0;
  };

  Outcome TrySend(int worker, const Instruction& instruction);
  Outcome TryReceive(int worker, const Instruction& instruction);
  Outcome TryCollective(int worker, const Instruction& instruction);
  Outcome Fail(std::string_view rule, std::string text);
  Channel& ChannelOf(int worker, const Instruction& instruction);
  const Group& GroupOf(int worker, const Instruction& instruction) const;
  int WorkerOf(const Peer& peer) const;

  const ScheduleShape& shape_;
  size_t channel_slots_;
  std::vector<Peer> workers_;
  ChannelIndex index_;
  std::vector<Channel> channels_;
  std::vector<Group> groups_;           // by stage; the last is of all workers
  std::vector<int64_t> waiting_since_;  // the generation + 1 that a worker has joined; 0: none
  std::vector<bool> ended_;
  std::vector<int> woken_;
  Fault fault_;
};

}  // namespace pipedream
