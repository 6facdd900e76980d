// Reads one worker's instructions in order, from a table's row or from a rolled program.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/schedule/stage_program.h"

namespace pipedream {

// Cheap to copy: a copy starts where the original stands. Borrows the table or program.
class InstructionStream {
 public:
  explicit InstructionStream(std::span<const Instruction> row) : row_(row) { Load(); }
  explicit InstructionStream(const StageProgram& program) : cursor_(program) { Load(); }

  bool done() const { return done_; }
  // How many instructions came before this one.
  int64_t position() const { return position_; }
  // REQUIRES, for both: !done().
  const Instruction& Get() const { return current_; }
  void Next() {
    ++position_;
    if (cursor_) cursor_->Next();
    Load();
  }

 private:
  void Load() {
    done_ = cursor_ ? cursor_->done() : position_ >= static_cast<int64_t>(row_.size());
    if (!done_) current_ = cursor_ ? cursor_->Get() : row_[position_];
  }

  std::span<const Instruction> row_;
  std::optional<ProgramCursor> cursor_;
  int64_t position_ = 0;
  bool done_ = false;
  Instruction current_;
};

// The streams of all workers, in WorkerIndex order.
std::vector<InstructionStream> StreamsOf(const ScheduleTable& table);
std::vector<InstructionStream> StreamsOf(const std::vector<StageProgram>& programs);

// A number for every channel: one per edge, pair of replicas and direction.
class ChannelIndex {
 public:
  explicit ChannelIndex(const ScheduleShape& shape);
  int size() const { return size_; }
  // REQUIRES: AreConnected(from, to).
  int Of(const Peer& from, const Peer& to) const;
  // Whether such stage replicas exist and an edge joins their stages.
  bool AreConnected(const Peer& from, const Peer& to) const;

 private:
  bool Exists(const Peer& peer) const;
  int& Base(int low, int high) { return base_[low * replicas_.size() + high]; }
  int Base(int low, int high) const { return base_[low * replicas_.size() + high]; }

  std::vector<int> replicas_;
  std::vector<int> base_;  // by (from, to) of the edge; -1: no edge
  int size_ = 0;
};

}  // namespace pipedream
